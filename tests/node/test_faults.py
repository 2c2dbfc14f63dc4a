"""What the file system may refuse: a coded error with path and errno, and nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.deployment import LAUNCH, process
from tests.node.wire import Helper, RefusedError

Helpers = Callable[..., Helper]
PLAN = {"name": "demo"}


@pytest.fixture
def small(helpers: Helpers, tmp_path: Path) -> tuple[Helper, Path]:
    """A helper that sees a file system of 96 KiB at a folder; nobody else sees it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    own_mounts = ("unshare", "-m") if os.getuid() == 0 else ("unshare", "-rm")
    mount = f"mount -t tmpfs -o size=96k tmpfs {disk} && exec " + '"$@"'
    return helpers(before=(*own_mounts, "sh", "-c", mount, "sh")), disk


def files_of(helper: Helper, folder: Path) -> list[str]:
    """List a folder as the helper's mounts show it."""
    found = helper.call("gather", commands={"find": ["find", str(folder), "-type", "f"]})
    return sorted(found["commands"]["find"]["out"].split())


def found_in(helper: Helper, folder: Path) -> list[str]:
    """List everything below a folder as the helper's mounts show it."""
    found = helper.call("gather", commands={"find": ["find", str(folder), "-mindepth", "1"]})
    return sorted(found["commands"]["find"]["out"].split())


def fill(helper: Helper, disk: Path) -> None:
    """Leave no byte free."""
    helper.call("gather", commands={"fill": ["sh", "-c", f"head -c 1000000 /dev/zero >{disk}/ballast"]})


def test_a_full_disk_is_told_while_preparing(small: tuple[Helper, Path]) -> None:
    helper, disk = small
    big = {"path": "bin/engine.py", "mode": "0644", "text": "x" * 200_000}
    with pytest.raises(RefusedError, match=r"no-space.*bin/engine\.py.*ENOSPC") as refused:
        helper.call("prepare", run_dir=f"{disk}/demo/n01", plan=PLAN, scripts={"a": "exit 0"}, files=[big])
    assert refused.value.details == {"path": f"{disk}/demo/n01/bin/engine.py", "errno": "ENOSPC"}
    assert found_in(helper, disk) == []


def test_a_full_disk_does_not_wipe_what_runs_already(small: tuple[Helper, Path]) -> None:
    helper, disk = small
    run_dir = f"{disk}/demo/n01"
    helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts={"a": "exec sleep 300"}, files=[])
    helper.call("start", run_dir=run_dir, launch=LAUNCH, processes=[process("a")])
    with pytest.raises(RefusedError, match="no-space"):
        helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts={"b": "x" * 200_000})
    records = helper.call("records", run_dir=run_dir)
    assert [(record["key"], record["alive"]) for record in records["processes"]] == [("a", True)]
    assert records["plan"] == PLAN
    helper.call("signal", run_dir=run_dir, ids=None, scope="tree", signal="KILL")
    assert helper.call("await_gone", run_dir=run_dir, ids=None, timeout=10) == {"survivors": []}


def test_hugepages_come_back_on_a_full_disk(small: tuple[Helper, Path]) -> None:
    helper, disk = small
    pages = disk.parent / "pages"
    pages.write_text("7\n")
    run_dir = f"{disk}/demo/n01"
    helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts={}, files=[])
    wanted = [{"path": str(pages), "value": 3}]
    helper.call("start", run_dir=run_dir, launch=LAUNCH, processes=[], hugepages=wanted)
    assert pages.read_text() == "3\n"
    fill(helper, disk)
    assert helper.call("restore", run_dir=run_dir) == {"restored": [{"path": str(pages), "before": 3, "now": 7}]}
    assert pages.read_text() == "7\n"
    helper.call("clear", run_dir=run_dir)
    assert found_in(helper, disk) == [f"{disk}/ballast"]


def test_a_full_disk_is_told_while_starting_and_nothing_runs(small: tuple[Helper, Path]) -> None:
    helper, disk = small
    run_dir = f"{disk}/demo/n01"
    scripts = {f"p{number}": f"exec sleep 300 # {number}" for number in range(4)}
    helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts=scripts, files=[])
    ballast = f"head -c 1000000 /dev/zero >{disk}/ballast; truncate -s -9000 {disk}/ballast"
    helper.call("gather", commands={"fill": ["sh", "-c", ballast]})
    with pytest.raises(RefusedError, match=r"no-space.*ENOSPC"):
        helper.call("start", run_dir=run_dir, launch=LAUNCH, processes=[process(key) for key in scripts])
    records = helper.call("records", run_dir=run_dir)["processes"]
    assert [record for record in records if record["pids"]] == []
    left = files_of(helper, disk)
    assert not [name for name in left if "/processes/" in name or "/exits/" in name or name.endswith(".tmp")]


def test_a_full_disk_does_not_swallow_an_exit_code(small: tuple[Helper, Path]) -> None:
    helper, disk = small
    run_dir = f"{disk}/demo/n01"
    helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts={"a": "head -c 1000000 /dev/zero; exit 7"}, files=[])
    helper.call("start", run_dir=run_dir, launch=LAUNCH, processes=[process("a")])
    watch = helper.stream("watch", run_dir=run_dir)
    assert watch.until(lambda seen: not seen["alive"], "the end of a")["exit"] == {"code": 7}
    assert helper.call("gather", space=[str(disk)])["space"][str(disk)]["free"] == 0
    watch.cancel()


def test_a_full_disk_keeps_nobody_from_locking(small: tuple[Helper, Path]) -> None:
    """What fills disks is logs of what runs, and to stop it takes the lock."""
    helper, disk = small
    run_dir = f"{disk}/demo/n01"
    helper.call("prepare", run_dir=run_dir, plan=PLAN, scripts={}, files=[])
    helper.call("lock", run_dir=run_dir, owner={"user": "me"})
    helper.call("unlock", run_dir=run_dir)
    fill(helper, disk)
    helper.call("lock", run_dir=run_dir, owner={"user": "you"})
    assert helper.call("lock_owner", run_dir=run_dir) == {"owner": {"user": "you"}}
    helper.call("unlock", run_dir=run_dir)
    assert helper.call("lock_owner", run_dir=run_dir) == {"owner": None}


def test_a_file_system_that_is_read_only_is_told(helpers: Helpers, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    own_mounts = ("unshare", "-m") if os.getuid() == 0 else ("unshare", "-rm")
    mount = f"mount -t tmpfs -o ro tmpfs {disk} && exec " + '"$@"'
    helper = helpers(before=(*own_mounts, "sh", "-c", mount, "sh"))
    for op, more in (("lock", {"owner": {}}), ("prepare", {"plan": PLAN})):
        with pytest.raises(RefusedError, match=r"read-only.*EROFS"):
            helper.call(op, run_dir=f"{disk}/demo/n01", **more)
    assert helper.call("gather", space=[f"{disk}/demo"])["space"][f"{disk}/demo"]["writable"] is False


def test_a_folder_that_we_may_not_make_is_told(node: Helper) -> None:
    with pytest.raises(RefusedError, match=r"denied.*cannot make the folder /sys/kernel/") as refused:
        node.call("lock", run_dir="/sys/kernel/demo/n01", owner={})
    assert refused.value.details["path"] == "/sys/kernel/demo/n01"
    assert refused.value.hint is not None


@pytest.mark.parametrize("depth", ["demo", "demo/n01", "demo/n01/processes"])
def test_a_file_where_a_folder_is_needed_is_told(node: Helper, tmp_path: Path, depth: str) -> None:
    blocker = tmp_path / depth
    blocker.parent.mkdir(parents=True, exist_ok=True)
    blocker.write_text("")
    with pytest.raises(RefusedError, match="not-a-folder"):
        node.call("prepare", run_dir=str(tmp_path / "demo" / "n01"), plan=PLAN, scripts={})


def test_a_relative_run_folder_is_refused(node: Helper) -> None:
    with pytest.raises(RefusedError, match="not absolute"):
        node.call("records", run_dir="demo/n01")


def test_the_home_folder_is_resolved_on_the_host(helpers: Helpers, tmp_path: Path) -> None:
    helper = helpers(env={"HOME": str(tmp_path)})
    helper.call("prepare", run_dir="~/state/demo/n01", plan=PLAN, scripts={})
    assert (tmp_path / "state" / "demo" / "n01" / "plan.json").exists()


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", ""])
def test_a_file_outside_the_run_folder_is_refused(node: Helper, tmp_path: Path, path: str) -> None:
    files = [{"path": path, "mode": "0644", "text": "x"}]
    with pytest.raises(RefusedError, match="does not stay inside"):
        node.call("prepare", run_dir=str(tmp_path / "demo" / "n01"), plan=PLAN, files=files)


@pytest.mark.parametrize("key", ["../x", "a/b", ".hidden", "", "a\n"])
def test_a_key_that_is_no_file_name_is_refused(node: Helper, tmp_path: Path, key: str) -> None:
    with pytest.raises(RefusedError, match="not a plain file name"):
        node.call("prepare", run_dir=str(tmp_path / "demo" / "n01"), plan=PLAN, scripts={key: "exit 0"})
