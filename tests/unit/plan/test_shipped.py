"""Every profile and inventory that ships compiles; the rehearsal overlay changes what it may and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sgdeploy.paths import data_dir
from sgdeploy.plan.compile import compile_profile
from tests.unit.plan.conftest import CPU, Compile

PROFILES = sorted(file for file in data_dir("profiles").rglob("*.yaml") if file.parent.name != "overlays")
OVERLAYS = sorted((data_dir("profiles") / "overlays").glob("*.yaml"))
INVENTORIES = sorted(data_dir("inventories").glob("*.yaml"))
KUNPENG = sorted((data_dir("profiles") / "kunpeng").glob("*.yaml"))
REHEARSAL = data_dir("profiles") / "overlays" / "rehearsal.yaml"


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_a_shipped_profile_plans_without_a_warning(file: Path) -> None:
    found = compile_profile(file)
    assert found.warnings == ()
    assert found.plan.processes


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda file: file.stem)
@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_a_shipped_overlay_fits_every_shipped_profile_of_its_platform(file: Path, overlay: Path) -> None:
    plan = compile_profile(file, [], [overlay]).plan
    assert plan.processes[0].argv[:4] == ("python3", "-I", "-S", "engine.py")


@pytest.mark.parametrize("file", INVENTORIES, ids=lambda file: file.stem)
def test_the_groups_of_a_shipped_inventory_hold_hosts(compiled: Compile, file: Path) -> None:
    groups = list(yaml.safe_load(file.read_text(encoding="utf-8"))["groups"])
    assert groups
    profile = yaml.safe_load(CPU)
    profile["inventory"] = str(file)
    for group in groups:
        profile["native"] = {"hosts": group}
        hosts = compile_profile_hosts(compiled, profile)
        assert hosts


def compile_profile_hosts(compiled: Compile, profile: dict[str, Any]) -> list[str]:
    """Give the hosts of a profile whose width is set to the number of its hosts."""
    draft = compiled(yaml.safe_dump({**profile, "native": {**profile["native"], "parallel": {"tp": 48}}}))
    return [host.host for host in draft.plan.hosts]


@pytest.mark.parametrize(
    ("name", "processes", "hosts", "stages"),
    [
        ("native", 256, 16, (("native",),)),
        ("pd", 513, 33, (("prefill", "decode"), ("router",))),
        ("two-bucket", 769, 49, (("prefill/short", "prefill/long", "decode"), ("router",))),
    ],
)
def test_the_kunpeng_profiles_in_numbers(
    name: str, processes: int, hosts: int, stages: tuple[tuple[str, ...], ...]
) -> None:
    plan = compile_profile(data_dir("profiles") / "kunpeng" / f"deepseek-v3-{name}.yaml").plan
    assert (len(plan.processes), len(plan.hosts), plan.stages) == (processes, hosts, stages)


def test_prefill_and_decode_on_one_machine_need_no_root() -> None:
    plan = compile_profile(data_dir("profiles") / "cpu" / "pd-one-machine.yaml").plan
    assert {host.connection for host in plan.hosts} == {"local"}
    assert len({process.address for process in plan.processes}) == len(plan.hosts) == 4
    assert {process.argv[0] for process in plan.processes} == {"python3"}


def test_the_demo_runs_here_without_root() -> None:
    plan = compile_profile(data_dir("profiles") / "demo" / "local.yaml").plan
    assert [host.connection for host in plan.hosts] == ["local"] * 3
    assert [process.address for process in plan.processes] == ["127.0.1.1", "127.0.1.2", "127.0.1.3"]
    for host in plan.hosts:
        assert host.run_dir.startswith("~/")
        assert (host.modules, host.hugepages) == ((), ())
    assert {process.argv[0] for process in plan.processes} == {"python3"}


@pytest.mark.parametrize("file", KUNPENG, ids=lambda file: file.stem)
@pytest.mark.parametrize("changes", [[], ["router.tokenizer=separate"]], ids=["inside", "separate"])
def test_the_rehearsal_changes_what_it_may_and_nothing_else(file: Path, changes: list[str]) -> None:
    """Executable, activation, cores, sysfs root, kernel module and model path, field by field."""
    changes = changes if "native" not in file.stem else []
    real = compile_profile(file, changes).plan.to_json()
    rehearsed = compile_profile(file, changes, [REHEARSAL]).plan.to_json()
    for plan in (real, rehearsed):
        del plan["digest"]
        simulated = {process["host"] for process in plan["processes"] if process["role"] != "router"}
        for host in plan["hosts"]:
            assert (host.pop("sysfs_root") != "") is (plan is rehearsed)
            # A host that only the real router runs on loads none in either.
            assert (host.pop("modules") == []) is (plan is rehearsed or host["host"] not in simulated)
            assert (host.pop("files") != []) is (plan is rehearsed and host["host"] in simulated)
        for process in plan["processes"]:
            assert (process.pop("activate") == []) is (plan is rehearsed)
            assert process.pop("cores") is None or plan is real
            in_run_dir, argv = process.pop("in_run_dir"), process["argv"]
            if process["role"] == "router":
                assert ("--model-path" in argv) is (plan is real)
                process["argv"] = [word for word in argv if word not in {"--model-path", "/opt/model"}]
            else:
                assert in_run_dir == ([3] if plan is rehearsed else [])
                start = next(index for index, word in enumerate(argv) if word.startswith("--"))
                process["argv"] = argv[start:]
                assert (argv[:start] == ["python3", "-I", "-S", "engine.py"]) is (plan is rehearsed)
    assert rehearsed == real
