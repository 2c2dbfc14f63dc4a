"""Weights split on hosts with real sshd: each makes its own part on its own disk, from a plan that was made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgdeploy.weights.cut.manifest import HEAD
from tests.cluster.deployments import SPLIT_PROFILE, write_inventory
from tests.kit.hosts import Lab
from tests.weights.tiny import Prints, fingerprints, make
from tests.weights.writing import write

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("lab", [4], indirect=True)]

WORDS = ("split-weights", "--profile", "my.yaml", "--out", "/split", "--on-nodes", "--json")


@pytest.fixture
def model(lab: Lab, tmp_path: Path) -> Path:
    """Write a profile for the lab, and a checkpoint that all hosts see."""
    write_inventory(lab, lab.folder)
    (lab.folder / "my.yaml").write_text(SPLIT_PROFILE)
    return make("dsv3-tiny", tmp_path / "model")


def part(prints: Prints, ranks: range) -> Prints:
    names = {f"{folder}model-rank-{rank}" for folder in ("", "mtp/") for rank in ranks}
    return {name: found for name, found in prints.items() if name in names}


def test_four_hosts_make_two_ranks_each(lab: Lab, model: Path, tmp_path: Path) -> None:
    done = lab.sgdeploy(*WORDS, "--model", str(model), cwd=lab.folder)
    assert done.returncode == 0, done.stderr
    write(model, tmp_path / "whole")
    expected = fingerprints(tmp_path / "whole")
    for number, host in enumerate(lab.hosts):
        ranks = range(2 * number, 2 * number + 2)
        assert fingerprints(host.path("/split")) == part(expected, ranks)
        head = json.loads(host.path(f"/split/{HEAD}").read_text())
        assert head["ranks"] == f"{ranks[0]}-{ranks[-1]}"
        host.wait_idle()
    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "split"]
    assert {event["host"] for event in ends if event["files"] == event["of_files"] == 8} == {
        host.name for host in lab.hosts
    }


def test_a_host_with_another_checkpoint_is_named(lab: Lab, model: Path) -> None:
    odd = lab.hosts[2]
    odd.write(f"{model}/config.json", (model / "config.json").read_text() + " ")
    done = lab.sgdeploy(*WORDS, "--model", str(model), cwd=lab.folder)
    assert done.returncode == 3
    assert f"{odd.name}: its checkpoint differs from that of {lab.hosts[0].name} in config.json" in done.stderr
    assert not any(host.path("/split").exists() for host in lab.hosts)
    for host in lab.hosts:
        host.wait_idle()


def test_up_refuses_what_does_not_fit(lab: Lab, model: Path) -> None:
    """The head of the split that was made is read by the preflight of every host."""
    assert lab.sgdeploy(*WORDS, "--model", str(model), cwd=lab.folder).returncode == 0
    wider = "--set=native.parallel.dp=4"
    refused = lab.sgdeploy("up", "my.yaml", "--dry-run", wider, cwd=lab.folder)
    assert refused.returncode == 3
    assert "the split in /split is for attention groups (dp) 2, here 4" in refused.stderr
    fits = lab.sgdeploy("up", "my.yaml", "--dry-run", cwd=lab.folder)
    assert "the split in /split" not in fits.stderr
