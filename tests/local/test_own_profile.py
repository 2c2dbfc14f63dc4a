"""The sample of the page on rehearsals: an overlay that makes this machine of every host of a profile."""

from __future__ import annotations

import re
from pathlib import Path

from tests.local.kit import Ground

PAGE = Path(__file__).parents[2] / "docs" / "rehearsal.md"
OWN = """\
version: 1
name: own
topology: native
platform: cpu
inventory:
  version: 1
  ssh: {user: root, sudo: true}
  defaults: {nic: enp26s0f0}
  groups: {rack1: "node[01-02]"}
model: {path: /models/own}
engine: {activate: ["venv:/opt/engine"], cwd: /opt/engine, flags: {mem-fraction-static: 0.8}}
native: {hosts: rack1, parallel: {tp: 2}}
"""


def test_the_sample_brings_a_profile_of_other_hosts_up_on_this_machine(ground: Ground) -> None:
    (sample,) = re.findall(r"^```yaml\n(# here\.yaml.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert "127.0.1. |" in sample
    profile, here = ground.folder / "my.yaml", ground.folder / "here.yaml"
    profile.write_text(OWN)
    here.write_text(sample.replace("127.0.1. |", f"{ground.net}. |"))
    words = (str(profile), "--overlay", str(here), "--overlay", "rehearsal")
    try:
        told = ground.well("up", *words)
        assert {event["host"] for event in told.of("rank")} == {ground.host(1), ground.host(2)}
    finally:
        down = ground.run("down", *words, "--now")
    assert down.returncode == 0, down.stderr
