"""Starting: everything on record before it runs, all of it or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.conftest import touching
from tests.node.deployment import LAUNCH, NEXT_LAUNCH, Deployment, process
from tests.node.wire import PATIENCE, Helper, RefusedError, living, patched, start_ticks, wait_for

Helpers = Callable[..., Helper]
NEEDLE = "n33dle-v4lue"


def test_a_process_leads_its_own_session_and_is_on_record(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    record = deployment.record("a")
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert (record["pid"], record["pgid"], record["sid"]) == (pid, pid, pid)
    assert record["start"] == start_ticks(pid)
    assert record["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert record["alive"] is True
    assert record["exit"] is None
    assert record["pids"] == [pid]
    assert record["marker"] == f"demo/n01/{LAUNCH['id']}/demo/a"
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


def test_its_environment_is_ours_without_our_variables(helpers: Helpers, deployment: Deployment) -> None:
    deployment.helper = helpers(env={"SGDEPLOY_INNER": "1", "KEPT": "yes"})
    deployment.run(a="env; exec sleep 300")
    env = dict(line.split("=", 1) for line in deployment.wait_log("a", "KEPT=").splitlines() if "=" in line)
    assert env["KEPT"] == "yes"
    assert {name for name in env if name.startswith("SGDEPLOY_")} == {"SGDEPLOY_MARK", "SGDEPLOY_FOLDER"}
    assert env["SGDEPLOY_FOLDER"] == str(deployment.run_dir)
    assert env["SGDEPLOY_MARK"] == f"demo/n01/{LAUNCH['id']}/demo/a"


@pytest.mark.parametrize("noise", ["", "trap '' HUP INT TERM USR1; "])
def test_signals_are_as_they_should_be_whatever_the_helper_inherited(
    helpers: Helpers, deployment: Deployment, noise: str
) -> None:
    deployment.helper = helpers(before=("sh", "-c", noise + 'exec "$@"', "sh"))
    pid = deployment.run(a="exec sleep 300")["a"]
    wait_for(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "sleep in the place of bash")
    status = Path(f"/proc/{pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    masks = {name: int(lines[name], 16) for name in ("SigBlk", "SigIgn")}
    assert masks == {"SigBlk": 0, "SigIgn": 0}


@pytest.mark.parametrize(
    ("script", "how"), [("exit 3", {"code": 3}), ("kill -9 $$", {"signal": 9}), (":", {"code": 0})]
)
def test_the_keeper_writes_how_a_process_ended(deployment: Deployment, script: str, how: dict[str, int]) -> None:
    deployment.run(a=script)
    assert wait_for(lambda: deployment.record("a")["exit"], "the exit of the process") == how
    assert deployment.record("a")["alive"] is False
    wait_for(lambda: not living(deployment.keeper("a")), "the end of the keeper, which has no children left")


def test_the_end_of_one_process_is_seen_while_others_run(deployment: Deployment) -> None:
    deployment.run(a="exit 3", b="exec sleep 300")
    assert wait_for(lambda: deployment.record("a")["exit"], "the exit of a") == {"code": 3}
    assert deployment.record("b")["alive"] is True


def test_a_log_is_appended_and_its_offset_recorded(deployment: Deployment) -> None:
    deployment.prepare(a="echo second run")
    (deployment.run_dir / "logs" / "a.log").write_text("first run\n")
    deployment.start("a")
    assert deployment.record("a")["offset"] == len("first run\n")
    assert deployment.wait_log("a", "second") == "first run\nsecond run\n"


def test_the_run_folder_is_private(deployment: Deployment) -> None:
    deployment.run(a="exit 0")
    assert deployment.run_dir.stat().st_mode & 0o777 == 0o700
    assert (deployment.run_dir / "logs" / "a.log").stat().st_mode & 0o777 == 0o640
    assert (deployment.run_dir / "scripts" / "a.sh").stat().st_mode & 0o777 == 0o700


def test_secrets_reach_the_process_and_nobody_else(deployment: Deployment) -> None:
    deployment.prepare(a='[ "$SGDEPLOY_SECRET_KEY" = ' + NEEDLE + '0 ] || echo "got it"; exec sleep 300')
    wanted = process(
        "a", secrets={"KEY": NEEDLE}, secret_file={"path": "secrets/a.yaml", "text": f"api-key: {NEEDLE}\n"}
    )
    deployment.start("a", processes=[wanted])
    deployment.wait_log("a", "got it")
    file = deployment.run_dir / "secrets" / "a.yaml"
    assert file.stat().st_mode & 0o777 == 0o600
    holders = [path for path in deployment.run_dir.rglob("*") if path.is_file() and NEEDLE in path.read_text()]
    # The script of this test names it; the file is the only place we wrote it to.
    assert sorted(holders) == sorted([file, deployment.run_dir / "scripts" / "a.sh"])
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            assert NEEDLE.encode() not in (folder / "cmdline").read_bytes()
    assert NEEDLE not in json.dumps(deployment.call("records"))
    deployment.kill_all()
    deployment.call("clear")
    assert not file.exists()


def test_a_secret_file_outside_our_folder_is_refused(deployment: Deployment) -> None:
    deployment.prepare(a="exec sleep 300")
    wanted = process("a", secret_file={"path": "../../x", "text": "x"})
    with pytest.raises(RefusedError, match="does not stay inside"):
        deployment.start("a", processes=[wanted])


def test_a_running_process_is_not_started_again(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    with pytest.raises(RefusedError, match=f"already-running.*pid {pid}") as refused:
        deployment.start("a")
    assert refused.value.details["pid"] == pid
    assert deployment.record("a")["pid"] == pid


def test_another_launch_does_not_start_beside_a_living_one(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300", b="exit 0")
    with pytest.raises(RefusedError, match="already-running"):
        deployment.start("b", launch={**LAUNCH, "id": NEXT_LAUNCH})


def test_a_second_start_of_the_same_launch_adds_processes(deployment: Deployment) -> None:
    deployment.prepare(a="exec sleep 300", b="exec sleep 300")
    deployment.start("a")
    deployment.start("b")
    assert deployment.keeper("a") != deployment.keeper("b")
    assert [record["alive"] for record in deployment.call("records")["processes"]] == [True, True]


def test_a_new_launch_forgets_the_dead_of_the_old_one(deployment: Deployment) -> None:
    deployment.run(a="exit 3", b="exit 4")
    wait_for(lambda: all(r["exit"] for r in deployment.call("records")["processes"]), "both ends")
    deployment.start("a", launch={**LAUNCH, "id": NEXT_LAUNCH})
    assert [record["id"] for record in deployment.call("records")["processes"]] == ["demo/a"]
    assert deployment.call("records")["launch"]["id"] == NEXT_LAUNCH


def test_a_failing_start_takes_back_what_it_had_started(deployment: Deployment) -> None:
    deployment.prepare(a="exec sleep 300", b="exec sleep 300")
    (deployment.run_dir / "logs" / "b.log").mkdir()
    stream = deployment.helper.stream(
        "start", run_dir=str(deployment.run_dir), launch=LAUNCH, processes=[process("a"), process("b")]
    )
    started = stream.next()
    assert started is not None
    with pytest.raises(RefusedError, match=r"is-a-folder.*b\.log.*EISDIR"):
        stream.next()
    assert not living(started["pid"])
    assert deployment.call("records")["processes"] == []
    assert deployment.call("records")["launch"]["state"] == "failed"
    assert list((deployment.run_dir / "exits").iterdir()) == []


def test_a_missing_script_is_an_error_before_anything_runs(deployment: Deployment) -> None:
    deployment.prepare()
    with pytest.raises(RefusedError, match=r"start-failed.*a\.sh is missing"):
        deployment.start("a")
    assert deployment.call("records")["processes"] == []


def test_a_host_without_bash_is_told_so(helpers: Helpers, deployment: Deployment, tmp_path: Path) -> None:
    nowhere = ('"/bin", "/usr/bin", "/usr/local/bin"', "")
    deployment.helper = helpers(modules=patched(nowhere), env={"PATH": str(tmp_path / "nothing")})
    deployment.prepare(a="exit 0")
    with pytest.raises(RefusedError, match="bash-missing"):
        deployment.start("a")


def test_a_bash_that_cannot_run_is_told_so(helpers: Helpers, deployment: Deployment, tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "bash"
    broken.parent.mkdir()
    broken.write_bytes(b"\x00\x01not a program")
    broken.chmod(0o755)
    deployment.helper = helpers(env={"PATH": str(broken.parent)})
    deployment.prepare(a="exit 0")
    with pytest.raises(RefusedError, match=r"cannot start .*bash.*ENOEXEC"):
        deployment.start("a")


def test_a_keeper_that_dies_before_the_record_never_lets_a_process_run(
    helpers: Helpers, deployment: Deployment, tmp_path: Path
) -> None:
    dies = ('            os.write(opener, b"start\\n")', "            os.kill(os.getpid(), signal.SIGKILL)")
    deployment.helper = helpers(modules=patched(dies))
    deployment.prepare(a=f"touch {tmp_path}/ran; exec sleep 300")
    with pytest.raises(RefusedError, match=r"start-failed.*keeper"):
        deployment.start("a")
    script = str(deployment.run_dir / "scripts" / "a.sh")
    wait_for(
        lambda: not any(script in words for words in touching(tmp_path).values()),
        "the end of the process behind the gate",
    )
    assert not (tmp_path / "ran").exists()


def test_a_helper_killed_in_the_middle_leaves_nothing_unrecorded(helpers: Helpers, deployment: Deployment) -> None:
    keys = [f"p{number:02}" for number in range(40)]
    deployment.prepare(**dict.fromkeys(keys, "exec sleep 300"))
    stream = deployment.helper.stream(
        "start", run_dir=str(deployment.run_dir), launch=LAUNCH, processes=[process(key) for key in keys]
    )
    assert stream.next() is not None
    deployment.helper.kill()
    deployment.helper = helpers()
    keeper = deployment.keeper("p00")
    assert living(keeper)
    records = deployment.call("records")["processes"]
    known = {pid for record in records for pid in record["pids"]}
    running = {pid for pid, words in touching(deployment.run_dir).items() if "sleep 300" in words}
    assert 0 < len(running) < len(keys)
    assert running <= known
    deployment.kill_all()
    wait_for(lambda: not living(keeper), "the end of the keeper")


def test_a_cancelled_start_keeps_what_it_has_started(deployment: Deployment) -> None:
    keys = [f"p{number:02}" for number in range(30)]
    deployment.prepare(**dict.fromkeys(keys, "exec sleep 300"))
    stream = deployment.helper.stream(
        "start", run_dir=str(deployment.run_dir), launch=LAUNCH, processes=[process(key) for key in keys]
    )
    assert stream.next() is not None
    stream.cancel()
    started = 1 + sum("started" in event for event in stream)
    assert stream.result == {"cancelled": True}
    records = deployment.call("records")
    assert [record["alive"] for record in records["processes"]] == [True] * started
    assert records["launch"]["state"] == "cancelled"


def test_the_keeper_survives_what_ends_a_login(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    keeper = deployment.keeper("a")
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(keeper, number)
    os.kill(pid, signal.SIGTERM)
    assert wait_for(lambda: deployment.record("a")["exit"], "the exit of the process") == {"signal": 15}
    assert os.getsid(os.getpid()) != keeper


def test_the_keeper_holds_no_line_to_the_helper(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    folder = Path(f"/proc/{deployment.keeper('a')}/fd")

    def quiet() -> bool:
        return {(folder / number).readlink() for number in "01"} == {Path("/dev/null")}

    wait_for(quiet, "the keeper to let go of its pipes")


DIES_WRITING = (
    "            stream.write(data)\n",
    "            stream.write(data) and path.name in ({name!r},) and os._exit(9)\n",
)


def half_written(deployment: Deployment) -> list[str]:
    return sorted(path.name.partition(".json")[0] for path in deployment.run_dir.rglob("*.tmp"))


@pytest.mark.parametrize("name", ["launch.json", "shipped.txt"])
def test_what_a_killed_helper_left_half_written_goes_with_the_next_change(
    helpers: Helpers, deployment: Deployment, name: str
) -> None:
    files = [{"path": "deep/shipped.txt", "text": "x"}]
    good, writes = deployment.helper, DIES_WRITING[1].format(name=name)
    deployment.helper = helpers(modules=patched((DIES_WRITING[0], writes)))
    with contextlib.suppress(AssertionError):  # it ends in the one or in the other
        deployment.call("prepare", plan={}, scripts={"a": "exit 0"}, files=files)
        deployment.start("a")
    deployment.helper.process.wait(PATIENCE)
    assert len(half_written(deployment)) == 1
    deployment.helper = good
    being_written = deployment.run_dir / f".plan.json.{os.getpid()}.1.tmp"
    being_written.write_text("somebody who lives writes this")
    deployment.prepare(a="exit 0")
    assert half_written(deployment) == [".plan"]
    deployment.start("a")
    assert deployment.call("await_gone", ids=None, scope="tree", timeout=PATIENCE) == {"survivors": []}
    deployment.call("clear")
    assert half_written(deployment) == []
