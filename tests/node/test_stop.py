"""Stopping: everything that is ours, nothing that is not, and proof."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.node.deployment import Deployment
from tests.node.wire import Helper, Json, RefusedError, living, patched, start_ticks, wait_for

Helpers = Callable[..., Helper]

# A child that leaves its parent, its session and its environment, as an engine's detokenizer may.
ESCAPE = "(setsid env -i {sleep} 301 & echo $! >{folder}/escaped) ; "


def read_pid(file: Path) -> int:
    return int(wait_for(lambda: file.exists() and file.read_text().strip(), f"a pid in {file.name}"))


def escaped(deployment: Deployment, tmp_path: Path, then: str) -> int:
    """Start process ``a`` with such a child; gives the child's pid."""
    sleep = shutil.which("sleep")
    pid = deployment.run(a=ESCAPE.format(sleep=sleep, folder=tmp_path) + then)["a"]
    child = read_pid(tmp_path / "escaped")
    wait_for(lambda: Path(f"/proc/{child}/environ").read_bytes() == b"", "the child's empty environment")
    # Its environment also looks empty for a moment while a program takes the place of another.
    wait_for(lambda: os.getsid(child) != pid, "the child's own session")
    return child


def test_main_gets_the_signal_alone(deployment: Deployment) -> None:
    pid = deployment.run(a='sleep 302 & echo "child $!"; wait')["a"]
    child = int(deployment.wait_log("a", "child").split()[1])
    assert deployment.call("signal", ids=["demo/a"], scope="main", signal="TERM") == {"signalled": [pid]}
    assert deployment.call("await_gone", ids=["demo/a"], scope="main", timeout=10) == {"survivors": []}
    left = deployment.call("await_gone", ids=["demo/a"], scope="tree", timeout=0)["survivors"]
    assert left == [{"id": "demo/a", "pid": child, "title": "sleep 302"}]
    assert deployment.record("a")["pids"] == [child]


def test_the_group_reaches_orphans_of_a_dead_main_process(deployment: Deployment) -> None:
    deployment.run(a='sleep 302 & echo "child $!"')
    child = int(deployment.wait_log("a", "child").split()[1])
    wait_for(lambda: deployment.record("a")["exit"], "the end of the main process")
    assert deployment.call("signal", ids=["demo/a"], scope="group", signal="TERM") == {"signalled": [child]}
    assert deployment.call("await_gone", ids=["demo/a"], scope="tree", timeout=10) == {"survivors": []}


def test_a_child_that_left_tree_session_and_environment_is_found(deployment: Deployment, tmp_path: Path) -> None:
    child = escaped(deployment, tmp_path, "exit 0")
    wait_for(lambda: deployment.record("a")["exit"], "the end of the main process")
    assert deployment.record("a")["pids"] == [child]
    assert deployment.call("signal", ids=["demo/a"], scope="tree", signal="KILL") == {"signalled": [child]}
    assert deployment.call("await_gone", ids=["demo/a"], scope="tree", timeout=10) == {"survivors": []}
    assert not living(child)


def test_such_a_child_goes_with_its_own_process_where_the_parent_still_lives(
    deployment: Deployment, tmp_path: Path
) -> None:
    child = escaped(deployment, tmp_path, "exec sleep 300")
    assert child in deployment.record("a")["pids"]
    deployment.kill_all()
    assert not living(child)


def test_such_a_child_is_not_taken_for_one_of_another_process(deployment: Deployment, tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    deployment.run(a="exec sleep 300", b=ESCAPE.format(sleep=sleep, folder=tmp_path) + "exit 0")
    child = read_pid(tmp_path / "escaped")
    wait_for(lambda: deployment.record("b")["exit"], "the end of b")
    assert deployment.call("signal", ids=["demo/b"], scope="tree", signal="TERM") == {"signalled": []}
    assert living(child), "while a lives, it might be a's"
    deployment.kill_all()
    assert not living(child)


def test_a_stranger_of_that_name_survives(deployment: Deployment, tmp_path: Path) -> None:
    program = tmp_path / "sglang"
    shutil.copy(shutil.which("sleep") or "", program)
    stranger = subprocess.Popen([str(program), "303"], start_new_session=True)
    try:
        deployment.run(a=f"exec {program} 304")
        deployment.kill_all()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_pid_that_is_somebody_elses_by_now_is_not_touched(deployment: Deployment) -> None:
    deployment.run(a="exit 0")
    wait_for(lambda: deployment.record("a")["exit"], "the end of a")
    stranger = subprocess.Popen(["sleep", "305"], start_new_session=True)
    try:
        ids = {"pid": stranger.pid, "pgid": stranger.pid, "sid": stranger.pid}
        deployment.alter("a", **ids, start=start_ticks(stranger.pid) - 1)
        assert deployment.record("a")["alive"] is False
        assert deployment.record("a")["pids"] == []
        for scope in ("main", "group", "tree"):
            assert deployment.call("signal", ids=["demo/a"], scope=scope, signal="KILL") == {"signalled": []}
        assert deployment.call("await_gone", ids=["demo/a"], scope="tree", timeout=0) == {"survivors": []}
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_record_of_another_boot_proves_nothing(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    true_boot = deployment.record("a")["boot_id"]
    deployment.alter("a", boot_id="00000000-0000-0000-0000-000000000000")
    record = deployment.record("a")
    assert (record["alive"], record["pids"]) == (False, [])
    assert deployment.call("signal", ids=None, scope="tree", signal="KILL") == {"signalled": []}
    assert living(pid)
    deployment.alter("a", boot_id=true_boot)


def test_after_the_keeper_was_killed_the_session_still_proves(deployment: Deployment) -> None:
    pid = deployment.run(a='env -i sleep 306 & echo "child $!"; exec env -i sleep 300')["a"]
    child = int(deployment.wait_log("a", "child").split()[1])
    deployment.kill_keeper("a")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not living(pid), "the end of the main process")
    assert deployment.record("a")["alive"] is False
    assert deployment.record("a")["exit"] is None
    assert deployment.record("a")["pids"] == [child]
    deployment.kill_all()
    assert not living(child)


def test_after_the_keeper_was_killed_the_marker_still_proves(deployment: Deployment) -> None:
    pid = deployment.run(a='(setsid sleep 307 & echo "child $!"); exec sleep 300')["a"]
    child = int(deployment.wait_log("a", "child").split()[1])
    wait_for(lambda: os.getsid(child) == child, "the child's own session")
    deployment.kill_keeper("a")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: deployment.record("a")["pids"] == [child], "the child to be found by its marker")
    deployment.kill_all()
    assert not living(child)


def test_a_session_number_that_a_stranger_leads_now_proves_nothing(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    deployment.kill_keeper("a")
    deployment.kill_all()
    script = "import os,subprocess,time; subprocess.Popen(['sleep','308']); print('up',flush=True); time.sleep(308)"
    stranger = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"up\n"
        ids = {"pid": stranger.pid, "pgid": stranger.pid, "sid": stranger.pid}
        deployment.alter("a", **ids, start=start_ticks(stranger.pid) - 5)
        assert deployment.record("a")["pids"] == []
        assert deployment.call("signal", ids=None, scope="tree", signal="KILL") == {"signalled": []}
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()


def test_a_keeper_that_ended_vouches_that_a_session_number_is_not_ours(deployment: Deployment) -> None:
    deployment.run(a="exit 0")
    keeper = deployment.keeper("a")
    wait_for(lambda: not living(keeper), "the end of the keeper")
    # The leader of the stranger's session is gone, its child is younger than the record: only the keeper knows better.
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 309 & echo $!"], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    out, _ = leader.stdout, leader.wait()
    assert out is not None
    child = int(out.readline())
    deployment.stranger(child)
    ids = {"pid": leader.pid, "pgid": leader.pid, "sid": leader.pid}
    deployment.alter("a", **ids, start=start_ticks(child) - 5)
    assert deployment.record("a")["pids"] == []
    assert living(child)


def test_the_helper_never_signals_its_own_line(helpers: Helpers, deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    deployment.helper = helpers(env={"SGDEPLOY_MARK": deployment.record("a")["marker"]})
    deployment.kill_all()
    assert deployment.helper.call("ping")["time"] > 0


def test_waiting_is_bounded(deployment: Deployment) -> None:
    pid = deployment.run(a="trap '' TERM; while :; do sleep 0.1; done")["a"]
    deployment.call("signal", ids=["demo/a"], scope="main", signal="TERM")
    begin = time.monotonic()
    left = deployment.call("await_gone", ids=["demo/a"], scope="main", timeout=0.5)["survivors"]
    assert 0.4 < time.monotonic() - begin < 5
    assert [survivor["pid"] for survivor in left] == [pid]


def test_waiting_ends_as_soon_as_all_are_gone(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    waiting = deployment.helper.stream("await_gone", run_dir=str(deployment.run_dir), ids=["demo/a"], timeout=60)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert waiting.next() is None
    assert waiting.result == {"survivors": []}
    assert time.monotonic() - begin < 5


def test_an_unknown_process_is_refused(deployment: Deployment) -> None:
    deployment.run(a="exit 0")
    for op, more in (("signal", {"scope": "main", "signal": "TERM"}), ("await_gone", {"timeout": 0})):
        with pytest.raises(RefusedError, match="unknown-process") as refused:
            deployment.call(op, ids=["demo/a", "demo/zz"], **more)
        assert refused.value.details["ids"] == ["demo/zz"]


def test_records_are_cleared_only_when_all_is_gone(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    with pytest.raises(RefusedError, match="still-alive") as refused:
        deployment.call("clear")
    assert refused.value.details["pids"] == [pid]
    assert deployment.record("a")["alive"] is True
    deployment.kill_all()
    deployment.call("audit", who="me", what="down")
    deployment.call("clear")
    left = sorted(str(path.relative_to(deployment.run_dir)) for path in deployment.run_dir.rglob("*"))
    assert left == ["audit.log", "logs", "logs/a.log", "logs/runs.json"]
    records = deployment.call("records")
    assert (records["launch"], records["plan"], records["processes"]) == (None, None, [])


def test_how_a_process_ended_by_itself_outlives_its_record(deployment: Deployment) -> None:
    """What was told to end has no such end, nor has what ended well."""
    deployment.run(a="exit 3", b="exec sleep 300", c="exit 0")
    wait_for(lambda: all(deployment.record(key)["exit"] for key in "ac"), "the end of two")
    before = time.time()
    deployment.call("about_to_end", ids=None)
    deployment.kill_all()
    deployment.call("clear")
    logs = last_runs(deployment, "a", "b", "c")
    assert {key: shown["exit"] for key, shown in logs.items()} == {"a": {"code": 3}, "b": None, "c": None}
    assert {key for key, shown in logs.items() if shown["asked"] is not None} == {"b"}
    assert before <= logs["b"]["asked"] <= time.time()


def test_the_last_run_of_a_log_ends_where_its_process_was_told_to_end(deployment: Deployment) -> None:
    deployment.run(a="echo first")
    wait_for(lambda: deployment.record("a")["exit"], "the end of the first run")
    deployment.call("clear")
    deployment.run(a="trap 'echo leaving; exit 0' TERM; echo begun; echo works; while :; do sleep 0.05; done")
    deployment.wait_log("a", "works\n")
    running = last_runs(deployment, "a")["a"]
    assert (running["lines"], running["first"], running["asked"]) == (["begun", "works"], 2, None)
    deployment.call("about_to_end", ids=["demo/a"])
    deployment.call("signal", ids=None, scope="main", signal="TERM")
    deployment.call("await_gone", timeout=10)
    assert deployment.log("a").endswith("leaving\n")
    for _ in range(2):
        for which in ("begin", "end"):
            assert last_runs(deployment, "a", which=which)["a"]["lines"] == ["begun", "works"]
        deployment.call("clear")
    assert last_runs(deployment, "b") == {}


def last_runs(deployment: Deployment, *keys: str, which: str = "begin") -> dict[str, Json]:
    """Give the last run of each log by its key."""
    asked = [{"id": f"demo/{key}", "log": f"{key}.log"} for key in keys]
    logs = deployment.call("last_run", processes=asked, which=which)["logs"]
    return {ident.partition("/")[2]: shown for ident, shown in logs.items()}


def test_clearing_waits_for_the_keeper(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    keeper = deployment.keeper("a")
    deployment.kill_all()
    deployment.call("clear")
    assert not living(keeper)
    assert not (deployment.run_dir / "exits").exists()


def test_clearing_what_does_not_exist_is_fine(deployment: Deployment) -> None:
    assert deployment.call("clear") == {}
    assert deployment.call("restore") == {"restored": []}


@pytest.mark.parametrize("text", ['{"id": "demo/a"', "[]", '{"id": "demo/a"}', "\x00" * 300])
def test_a_damaged_record_hides_no_process_and_no_other_record(deployment: Deployment, text: str) -> None:
    """Nobody else's is below their keeper, so what has no record is stopped with the others."""
    pids = deployment.run(a="exec sleep 300", b="exec sleep 300")
    file = deployment.run_dir / "processes" / "a.json"
    file.write_text(text)
    records = deployment.call("records")
    assert [(record["key"], record["pids"]) for record in records["processes"]] == [("b", [pids["b"], pids["a"]])]
    assert [f"{file} is damaged: " in damage for damage in records["damaged"]] == [True]
    deployment.kill_all()
    assert not living(pids["a"])
    deployment.call("clear")
    assert not file.exists()


@pytest.mark.parametrize("name", ["plan.json", "launch.json"])
def test_a_damaged_file_keeps_nobody_from_stopping(deployment: Deployment, name: str) -> None:
    deployment.run(a="exec sleep 300")
    (deployment.run_dir / name).write_text("{")
    records = deployment.call("records")
    assert [f"{name} is damaged" in damage for damage in records["damaged"]] == [True]
    assert records[name.partition(".")[0]] is None
    deployment.kill_all()
    deployment.call("clear")
    assert sorted(path.name for path in deployment.run_dir.iterdir()) == ["logs"]


@pytest.mark.parametrize("gone", ["processes", "."])
def test_processes_whose_records_were_removed_are_found_and_not_touched(
    helpers: Helpers, deployment: Deployment, gone: str
) -> None:
    """Removing a folder by hand stops nothing; who then says that nothing runs would lie."""
    deployment.helper = helpers(modules=patched(("LEAVING = 10.0", "LEAVING = 0.2")))
    child = "exec -a other sleep 301 & exec sleep 300"
    pid = deployment.run(a=child)["a"]
    wait_for(lambda: len(deployment.record("a")["pids"]) > 1, "the child of a")
    pids = deployment.record("a")["pids"]
    shutil.rmtree(deployment.run_dir / gone)
    records = deployment.call("records")
    assert (records["processes"], [orphan["pid"] for orphan in records["unrecorded"]]) == ([], pids)
    assert "sleep 300" in records["unrecorded"][0]["title"]
    stream = deployment.helper.stream("clear", run_dir=str(deployment.run_dir))
    with pytest.raises(RefusedError, match=rf"still-alive: cannot clear.* pid {pid} .*no record names it") as refused:
        stream.next()
    assert refused.value.hint is not None
    assert refused.value.hint.endswith("kill -KILL " + " ".join(map(str, pids)))
    with pytest.raises(RefusedError, match="cannot start anything"):
        deployment.run(b="exit 0")
    assert all(map(living, pids))
    for each in pids:
        deployment.stranger(each)


def test_clearing_waits_for_processes_without_a_record_that_leave_by_themselves(deployment: Deployment) -> None:
    """As followers do after their leader."""
    deployment.run(a="sleep 1")
    shutil.rmtree(deployment.run_dir / "processes")
    assert deployment.call("records")["unrecorded"]
    assert deployment.call("clear") == {}


def test_a_process_of_the_same_name_from_another_folder_is_another_ones(deployment: Deployment, tmp_path: Path) -> None:
    other = Deployment(tmp_path / "elsewhere" / "n01", deployment.helper)
    other.run(a="exec sleep 300")
    assert deployment.call("records")["unrecorded"] == []
    assert deployment.call("clear") == {}
    other.kill_all()
    other.call("clear")


def test_nothing_stays_where_nothing_has_run(deployment: Deployment) -> None:
    deployment.prepare(a="exit 0")
    deployment.call("clear")
    assert not deployment.run_dir.parent.exists()


ODD: dict[str, Any] = {
    "wall": ["x", {}, float("nan"), 1e30, -1],
    "keeper": [5, {}, {"pid": {}, "start": 1}],
    "key": ["../../x", "b", 7],
    "pid": ["7", {}, -1, 1 << 70],
    "boot_id": [None],
    "offset": ["x", -1],
    "log": [5, "", "logs/.."],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in ODD.items() for value in values])
def test_a_record_with_a_value_that_cannot_be_is_damaged_and_keeps_nobody_from_stopping(
    deployment: Deployment, field: str, value: object
) -> None:
    pids = deployment.run(a="exec sleep 300", b="exec sleep 300")
    deployment.alter("a", **{field: value})
    records = deployment.call("records")
    assert [(record["key"], record["pids"]) for record in records["processes"]] == [("b", [pids["b"], pids["a"]])]
    assert ["processes/a.json is damaged: " in damage for damage in records["damaged"]] == [True]
    deployment.kill_all()
    assert not living(pids["a"])
    deployment.call("clear")
    assert not (deployment.run_dir / "processes").exists()


def test_notes_beside_the_records_that_are_of_another_shape_are_none(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    for name in ("exits/a.json", "milestones/a.json", "logs/runs.json", "files.json", "keepers/1-1.json"):
        (deployment.run_dir / name).parent.mkdir(exist_ok=True)
    (deployment.run_dir / "exits/a.json").write_text('{"pid": {}, "code": "x"}')
    (deployment.run_dir / "milestones/a.json").write_text('{"reached": 5, "workers": [5]}')
    (deployment.run_dir / "logs/runs.json").write_text('{"a.log": [5, {"offset": "x"}]}')
    (deployment.run_dir / "files.json").write_text('{"files": [5, "..", "/x"]}')
    (deployment.run_dir / "keepers/1-1.json").write_text('{"pid": {}, "start": []}')
    assert deployment.record("a")["exit"] is None
    deployment.kill_all()
    deployment.call("restore")
    deployment.call("clear")
    assert sorted(path.name for path in deployment.run_dir.iterdir()) == ["logs"]


def test_page_counts_that_are_none_are_told_with_their_file(deployment: Deployment) -> None:
    deployment.run(a="exit 0")
    deployment.kill_all()
    file = deployment.run_dir / "launch.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hugepages_before": [{"path": 5}]}))
    with pytest.raises(RefusedError, match=rf"bad-record: {file} is damaged: its hugepages_before"):
        deployment.call("restore")
