"""Hugepages and kernel modules: written, read back, refused with numbers, and given back exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.deployment import LAUNCH, Deployment, process
from tests.node.wire import Helper, Json, RefusedError, patched, wait_for

Helpers = Callable[..., Helper]

GRANT = """def put_number(path: str, value: int) -> None:
    import os
    from pathlib import Path
    has = int(Path(path).read_text())
    Path(path).write_text(str({rule}))


def never_called(path: str, value: int) -> None:"""


def kernel(rule: str) -> dict[str, bytes]:
    """Give a helper under which the kernel grants what a rule over ``has`` and ``value`` says."""
    return patched(("def put_number(path: str, value: int) -> None:", GRANT.format(rule=rule)))


class Sysfs:
    """A folder that stands for /sys."""

    def __init__(self, root: Path) -> None:
        """Begin empty."""
        self.root = root

    def path(self, node: int) -> str:
        """Give the real path of a count."""
        return f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"

    def set(self, node: int, value: int) -> str:
        """Put a count there, as somebody else would."""
        file = Path(f"{self.root}{self.path(node)}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        return self.path(node)

    def get(self, node: int) -> int:
        """Read a count."""
        return int(Path(f"{self.root}{self.path(node)}").read_text())


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path / "fake")


def start(deployment: Deployment, sysfs: Sysfs, pages: dict[int, int], per_process: dict[int, int]) -> list[Json]:
    """Start process ``a`` with these counts; gives all events."""
    stream = deployment.helper.stream(
        "start",
        run_dir=str(deployment.run_dir),
        launch=LAUNCH,
        sysfs_root=str(sysfs.root),
        hugepages=[{"path": sysfs.path(node), "value": value} for node, value in pages.items()],
        processes=[process("a", hugepages=[{"path": sysfs.path(n), "value": v} for n, v in per_process.items()])],
    )
    return list(stream)


def restore(deployment: Deployment, sysfs: Sysfs) -> Json:
    return deployment.call("restore", sysfs_root=str(sysfs.root))


def test_counts_are_written_and_given_back(deployment: Deployment, sysfs: Sysfs) -> None:
    sysfs.set(0, 10)
    sysfs.set(1, 500)
    deployment.prepare(a="exec sleep 300")
    start(deployment, sysfs, {0: 2020}, {1: 0})
    assert (sysfs.get(0), sysfs.get(1)) == (2020, 0)
    before = deployment.call("records")["launch"]["hugepages_before"]
    assert before == [{"path": sysfs.path(0), "value": 10}, {"path": sysfs.path(1), "value": 500}]
    deployment.kill_all()
    restored = restore(deployment, sysfs)["restored"]
    assert sorted((entry["before"], entry["now"]) for entry in restored) == [(0, 500), (2020, 10)]
    assert (sysfs.get(0), sysfs.get(1)) == (10, 500)
    assert restore(deployment, sysfs) == {"restored": []}


def test_the_first_value_is_kept_over_a_second_start(deployment: Deployment, sysfs: Sysfs) -> None:
    sysfs.set(0, 10)
    deployment.prepare(a="exit 0")
    start(deployment, sysfs, {0: 2020}, {})
    wait_for(lambda: deployment.record("a")["exit"], "the end of a")
    start(deployment, sysfs, {0: 3000}, {})
    wait_for(lambda: deployment.record("a")["exit"], "the end of a")
    assert sysfs.get(0) == 3000
    restore(deployment, sysfs)
    assert sysfs.get(0) == 10


def test_a_value_that_fits_already_is_not_ours_to_give_back(deployment: Deployment, sysfs: Sysfs) -> None:
    sysfs.set(0, 2020)
    deployment.prepare(a="exit 0")
    start(deployment, sysfs, {0: 2020}, {})
    assert deployment.call("records")["launch"]["hugepages_before"] == []


def test_fewer_pages_than_asked_are_an_error_with_numbers(
    helpers: Helpers, deployment: Deployment, sysfs: Sysfs
) -> None:
    deployment.helper = helpers(modules=kernel("min(value, 1507)"))
    sysfs.set(0, 10)
    sysfs.set(1, 20)
    deployment.prepare(a="exec sleep 300")
    with pytest.raises(RefusedError, match=r"hugepages-short.*asked for 2020 pages, the kernel granted 1507") as no:
        start(deployment, sysfs, {1: 30}, {0: 2020})
    assert no.value.details == {"path": sysfs.path(0), "asked": 2020, "granted": 1507}
    assert (sysfs.get(0), sysfs.get(1)) == (10, 20), "counts are as they were before the start"
    assert deployment.call("records")["processes"] == []
    assert deployment.call("records")["launch"]["hugepages_before"] == []


def test_a_short_grant_takes_back_processes_too(helpers: Helpers, deployment: Deployment, sysfs: Sysfs) -> None:
    deployment.helper = helpers(modules=kernel("min(value, 100)"))
    sysfs.set(0, 10)
    deployment.prepare(a="exec sleep 300", b="exec sleep 300")
    wanted = [process("a"), process("b", hugepages=[{"path": sysfs.path(0), "value": 200}])]
    with pytest.raises(RefusedError, match="hugepages-short"):
        deployment.start(processes=wanted, sysfs_root=str(sysfs.root))
    assert deployment.call("records")["processes"] == []
    assert sysfs.get(0) == 10


def test_a_kernel_that_needs_a_second_write_gets_it(helpers: Helpers, deployment: Deployment, sysfs: Sysfs) -> None:
    deployment.helper = helpers(modules=kernel("min(value, has + 800)"))
    sysfs.set(0, 0)
    deployment.prepare(a="exit 0")
    start(deployment, sysfs, {0: 2020}, {})
    assert sysfs.get(0) == 2020


def test_more_pages_than_asked_are_told(helpers: Helpers, deployment: Deployment, sysfs: Sysfs) -> None:
    deployment.helper = helpers(modules=kernel("max(value, 50)"))
    sysfs.set(0, 90)
    deployment.prepare(a="exec sleep 300")
    told = [event for event in start(deployment, sysfs, {}, {0: 0}) if "more_hugepages" in event]
    assert told == [{"more_hugepages": {"process": "demo/a", "path": sysfs.path(0), "asked": 0, "granted": 50}}]
    assert deployment.record("a")["alive"] is True


def test_a_count_that_does_not_come_back_is_an_error_and_stays_on_record(
    helpers: Helpers, deployment: Deployment, sysfs: Sysfs
) -> None:
    sysfs.set(0, 10)
    deployment.prepare(a="exit 0")
    start(deployment, sysfs, {0: 2020}, {})
    wait_for(lambda: deployment.record("a")["exit"], "the end of a")
    deployment.helper = helpers(modules=kernel("max(value, 700)"))
    with pytest.raises(RefusedError, match=r"hugepages-short.*wanted 10, is 700"):
        restore(deployment, sysfs)
    assert deployment.call("records")["launch"]["hugepages_before"] == [{"path": sysfs.path(0), "value": 10}]
    deployment.helper = helpers()
    restore(deployment, sysfs)
    assert sysfs.get(0) == 10


def test_nothing_is_given_back_while_a_process_lives(deployment: Deployment, sysfs: Sysfs) -> None:
    sysfs.set(0, 10)
    deployment.prepare(a="exec sleep 300")
    start(deployment, sysfs, {0: 2020}, {})
    with pytest.raises(RefusedError, match="still-alive"):
        restore(deployment, sysfs)
    assert sysfs.get(0) == 2020


def test_a_host_without_that_node_is_told_so(deployment: Deployment, sysfs: Sysfs) -> None:
    deployment.prepare(a="exit 0")
    with pytest.raises(RefusedError, match=r"hugepages-missing.*node9.*no page count"):
        start(deployment, sysfs, {9: 2020}, {})


def test_the_first_value_is_on_disk_before_the_write(helpers: Helpers, deployment: Deployment, sysfs: Sysfs) -> None:
    deployment.helper = helpers(modules=kernel("os.kill(os.getpid(), 9)"))
    sysfs.set(0, 10)
    deployment.prepare(a="exit 0")
    with pytest.raises(AssertionError, match="the helper ended"):
        start(deployment, sysfs, {0: 2020}, {})
    deployment.helper = helpers()
    assert deployment.call("records")["launch"]["hugepages_before"] == [{"path": sysfs.path(0), "value": 10}]


MODULE = {"name": "sdma-dae", "file": "", "params": {"safe_mode": "0", "share_chns": "160"}}


@pytest.fixture
def loaded(sysfs: Sysfs) -> Path:
    """The module as loaded with other parameters than asked."""
    folder = sysfs.root / "sys" / "module" / "sdma_dae" / "parameters"
    folder.mkdir(parents=True)
    (folder / "safe_mode").write_text("N\n")
    (folder / "share_chns").write_text("160\n")
    return folder


def modules(deployment: Deployment, sysfs: Sysfs, module: Json) -> None:
    deployment.prepare(a="exit 0")
    deployment.start("a", modules=[module], sysfs_root=str(sysfs.root))


def test_a_module_that_is_loaded_as_wanted_is_left_alone(deployment: Deployment, sysfs: Sysfs, loaded: Path) -> None:
    assert loaded.is_dir()
    modules(deployment, sysfs, MODULE)


def test_a_module_that_is_loaded_otherwise_is_an_error_with_both_values(
    deployment: Deployment, sysfs: Sysfs, loaded: Path
) -> None:
    (loaded / "share_chns").write_text("80\n")
    with pytest.raises(RefusedError, match=r"module-failed.*sdma_dae.*share_chns is 80, wanted 160") as no:
        modules(deployment, sysfs, MODULE)
    assert "rmmod" in (no.value.hint or "")


def test_a_missing_module_file_is_an_error(deployment: Deployment, sysfs: Sysfs, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"module-failed.*x\.ko: there is no such"):
        modules(deployment, sysfs, {**MODULE, "file": str(tmp_path / "x.ko")})


@pytest.mark.parametrize(("rc", "works"), [(0, True), (1, False)])
def test_a_module_that_is_not_loaded_is_inserted(
    helpers: Helpers, deployment: Deployment, sysfs: Sysfs, tmp_path: Path, rc: int, works: bool
) -> None:
    tool = tmp_path / "bin" / "insmod"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\necho "Invalid module format" >&2\nexit {rc}\n')
    tool.chmod(0o755)
    module = tmp_path / "x.ko"
    module.write_text("")
    deployment.helper = helpers(env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    if works:
        modules(deployment, sysfs, {**MODULE, "file": str(module)})
    else:
        with pytest.raises(RefusedError, match=r"module-failed.*Invalid module format"):
            modules(deployment, sysfs, {**MODULE, "file": str(module)})
    assert (tmp_path / "asked").read_text() == f"{module} safe_mode=0 share_chns=160\n"
