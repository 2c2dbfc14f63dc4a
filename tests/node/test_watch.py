"""Watching: what changed, soon, cheaply, and with bounded memory whatever a log holds."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from typing import Any

import pytest

from tests.node.deployment import Deployment
from tests.node.wire import Helper, Json, RefusedError, Stream, living, patched, start_ticks, wait_for

Helpers = Callable[..., Helper]
Watcher = Callable[..., Stream]
READY = [["begin", "Load weight begin"], ["end", r"Load weight end\. elapsed=\d+"], ["ready", "fired up"]]


@pytest.fixture
def watch(deployment: Deployment) -> Watcher:
    def start(**arguments: Any) -> Stream:
        return deployment.helper.stream("watch", run_dir=str(deployment.run_dir), **arguments)

    return start


def held(tmp_path: Path, *lines: str) -> str:
    """Give a script that prints each line once a file of its number appears, then stays."""
    steps = [f"until [ -e {tmp_path}/go{n} ]; do sleep 0.02; done; {line}" for n, line in enumerate(lines)]
    return "\n".join([*steps, "exec sleep 300"])


def go(tmp_path: Path, number: int) -> None:
    (tmp_path / f"go{number}").touch()


def test_the_first_event_shows_every_process(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="echo hello; exec sleep 300", b="exec sleep 300")
    deployment.wait_log("a", "hello")
    first = watch().next()
    assert first is not None
    rows = {row["process"]: row for row in first["observations"]}
    assert sorted(rows) == ["demo/a", "demo/b"]
    a = rows["demo/a"]
    assert (a["alive"], a["exit"], a["line"], a["log_bytes"], a["pids"]) == (True, None, "hello", 6, 1)
    assert (a["milestones"], a["http"], a["tail"], a["died_ago"]) == ([], None, None, None)


def test_a_process_that_a_signal_stopped_is_named_until_it_goes_on(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="echo hello; exec sleep 300", b="exec sleep 300")
    deployment.wait_log("a", "hello")
    pid = deployment.record("a")["pid"]
    os.kill(pid, signal.SIGSTOP)
    stream = watch()
    first = stream.next()
    assert first is not None
    assert {row["process"]: row["stopped"] for row in first["observations"]} == {
        "demo/a": [f"{pid} sleep"],
        "demo/b": [],
    }
    os.kill(pid, signal.SIGCONT)
    row = stream.until(lambda seen: seen["process"] == "demo/a" and not seen["stopped"], "the process to go on")
    assert row["alive"]


def test_milestones_are_told_in_the_order_of_the_list(deployment: Deployment, watch: Watcher, tmp_path: Path) -> None:
    script = held(
        tmp_path, "echo 'Load weight end. elapsed=12 s'", "echo 'x Load weight begin'", "printf 'fired up, no line end'"
    )
    deployment.run(a=script)
    stream = watch(milestones={"demo/a": READY})
    go(tmp_path, 0)
    stream.until(lambda seen: seen["milestones"] == ["end"], "the end of loading")
    go(tmp_path, 1)
    stream.until(lambda seen: seen["milestones"] == ["begin", "end"], "the begin of loading")
    go(tmp_path, 2)
    stream.until(lambda seen: seen["milestones"] == ["begin", "end", "ready"], "readiness")


def test_an_earlier_run_in_the_same_log_does_not_count(deployment: Deployment, watch: Watcher) -> None:
    deployment.prepare(a="echo new; exec sleep 300")
    (deployment.run_dir / "logs" / "a.log").write_text("fired up\n")
    deployment.start("a")
    seen = watch(milestones={"demo/a": READY}).until(lambda seen: seen["line"] == "new", "the new line")
    assert (seen["milestones"], seen["log_bytes"]) == ([], 4)


def test_a_death_is_told_soon_with_its_last_lines(deployment: Deployment, watch: Watcher) -> None:
    pid = deployment.run(a="for n in $(seq 50); do echo line $n; done; exec sleep 300")["a"]
    deployment.wait_log("a", "line 50\n")
    stream = watch()
    stream.until(lambda seen: seen["line"] == "line 50", "the last line")
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    seen = stream.until(lambda seen: not seen["alive"], "the death")
    assert time.monotonic() - begin < 3
    assert seen["exit"] == {"signal": 9}
    assert 0 <= seen["died_ago"] < 3
    assert seen["tail"] == [f"line {number}" for number in range(31, 51)]


def test_a_process_that_is_dead_already_is_told_at_once(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="echo oops; exit 3")
    wait_for(lambda: deployment.record("a")["exit"], "the end of a")
    first = watch().next()
    assert first is not None
    [row] = first["observations"]
    assert (row["alive"], row["exit"], row["tail"]) == (False, {"code": 3}, ["oops"])


def test_a_death_without_a_keeper_has_no_exit(deployment: Deployment, watch: Watcher) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    stream = watch()
    assert stream.next() is not None
    deployment.kill_keeper("a")
    os.kill(pid, signal.SIGKILL)
    seen = stream.until(lambda seen: not seen["alive"], "the death")
    assert (seen["exit"], seen["died_ago"]) == (None, None)


def test_children_are_counted(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="sleep 300 & setsid sleep 300 & wait")
    stream = watch()
    stream.until(lambda seen: seen["pids"] == 3, "three processes")
    children = [pid for pid in deployment.record("a")["pids"] if pid != deployment.record("a")["pid"]]
    os.kill(children[0], signal.SIGKILL)
    stream.until(lambda seen: seen["pids"] == 2, "two processes")


def test_a_heartbeat_comes_even_where_nothing_happens(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="exec sleep 300")
    stream = watch()
    beats = [
        event["heartbeat"]
        for event in (stream.next(5), stream.next(5), stream.next(5))
        if event and "heartbeat" in event
    ]
    assert beats[0] == pytest.approx(0, abs=0.5)
    assert beats[1] == pytest.approx(2, abs=1)


def test_cancelling_ends_it(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="exec sleep 300")
    stream = watch()
    assert stream.next() is not None
    stream.cancel()  # what was sent before it took hold may still come
    assert all("heartbeat" in event for event in stream)
    assert stream.result == {}


def test_only_the_wanted_processes_are_watched(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="exec sleep 300", b="exec sleep 300")
    first = watch(ids=["demo/b"]).next()
    assert first is not None
    assert [row["process"] for row in first["observations"]] == ["demo/b"]
    with pytest.raises(RefusedError, match="unknown-process"):
        watch(ids=["demo/c"]).next()


def test_a_pattern_that_is_none_is_refused(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="exec sleep 300")
    with pytest.raises(RefusedError, match=r"milestone bad is no regular expression"):
        watch(milestones={"demo/a": [["bad", "("]]}).next()


def test_processes_that_start_later_are_taken_in(deployment: Deployment, watch: Watcher) -> None:
    deployment.prepare(a="exec sleep 300", b="exec sleep 300")
    deployment.start("a")
    stream = watch()
    stream.until(lambda seen: seen["process"] == "demo/a", "a")
    deployment.start("b")
    stream.until(lambda seen: seen["process"] == "demo/b" and seen["alive"], "b")


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (r"\033[32mINFO\033[0m all well\n", "INFO all well"),
        (r"loading 10%%\rloading 50%%\rloading 90%%", "loading 90%"),
        (r"loading 10%%\rloading 50%%\r", "loading 50%"),
        (r"windows line\r\n", "windows line"),
        (r"bad \377 byte\n", "bad \ufffd byte"),
        (r"\033]0;title\007after a title\n", "after a title"),
        (r"first\n\n   \n", "first"),
        (r"a bell \a and a null \000 here\n", "a bell  and a null  here"),
    ],
)
def test_the_last_line_is_readable(deployment: Deployment, watch: Watcher, printed: str, line: str) -> None:
    deployment.run(a=f"printf '{printed}'; exec sleep 300")
    watch().until(lambda seen: seen["line"] == line, f"the line {line!r}")


def test_a_coloured_milestone_is_found(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a=r"printf '\033[1mfired\033[0m up\n'; exec sleep 300")
    watch(milestones={"demo/a": READY}).until(lambda seen: seen["milestones"] == ["ready"], "readiness")


def test_a_long_line_is_cut(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="head -c 300000 /dev/zero | tr '\\0' x; echo; echo fired up; exec sleep 300")
    seen = watch(milestones={"demo/a": READY}).until(lambda seen: bool(seen["milestones"]), "readiness")
    assert seen["line"] == "fired up"
    deployment.run_dir.joinpath("logs", "a.log").open("a").write("y" * 100_000)
    assert max(len(line) for line in deployment.call("logs", ids=None)["logs"]["demo/a"]["lines"]) <= 2000


def memory_of(pid: int) -> int:
    """Give the most memory that a process ever held, in MiB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) // 1024


def test_a_gigabyte_without_a_line_end_costs_no_memory(deployment: Deployment, watch: Watcher, tmp_path: Path) -> None:
    deployment.run(a=held(tmp_path, "echo; echo fired up"))
    stream = watch(milestones={"demo/a": READY})
    assert stream.next() is not None
    os.truncate(deployment.run_dir / "logs" / "a.log", 1 << 30)
    go(tmp_path, 0)
    seen = stream.until(lambda seen: seen["milestones"] == ["ready"], "the line after the gigabyte", 60)
    assert seen["log_bytes"] > 1 << 30
    assert memory_of(deployment.helper.pid) < 64


def test_a_log_that_was_cut_is_read_from_its_begin(deployment: Deployment, watch: Watcher, tmp_path: Path) -> None:
    deployment.run(a=held(tmp_path, "echo 'a long line before the cut'", "echo fired up"))
    stream = watch(milestones={"demo/a": READY})
    go(tmp_path, 0)
    stream.until(lambda seen: "before" in seen["line"], "the first line")
    os.truncate(deployment.run_dir / "logs" / "a.log", 0)
    go(tmp_path, 1)
    seen = stream.until(lambda seen: seen["milestones"] == ["ready"], "readiness")
    assert seen["log_bytes"] > len("a long line before the cut")


def test_a_log_that_was_replaced_is_followed(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="echo first; exec sleep 300")
    stream = watch(milestones={"demo/a": READY})
    stream.until(lambda seen: seen["line"] == "first", "the first line")
    log = deployment.run_dir / "logs" / "a.log"
    log.rename(log.with_suffix(".old"))
    log.write_text("fired up\n")
    stream.until(lambda seen: seen["milestones"] == ["ready"], "readiness")


def test_sixteen_processes_are_watched_for_next_to_nothing(deployment: Deployment, watch: Watcher) -> None:
    deployment.run(**dict.fromkeys([f"p{n:02}" for n in range(16)], "exec sleep 300"))
    stream = watch(milestones={f"demo/p{n:02}": READY for n in range(16)}, interval=0.2)
    assert stream.next() is not None

    def cpu() -> float:
        return sum(map(int, Path(f"/proc/{deployment.helper.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    begin, before = time.monotonic(), cpu()
    beats = 0
    while beats < 3:
        beats += "heartbeat" in (stream.next() or {})
    share = (cpu() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)
    assert share < 0.02, f"{100 * share:.1f} % of a core"


class Answers(BaseHTTPRequestHandler):
    """Says what the test wants."""

    status = 503
    hang: threading.Event | None = None
    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        """Answer, or hang."""
        type(self).seen.append({"path": self.path, **dict(self.headers)})
        if self.hang is not None:
            self.hang.wait(30)
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class ServerV6(ThreadingHTTPServer):
    """The same over IPv6."""

    address_family = AF_INET6


@contextlib.contextmanager
def serving(kind: type[ThreadingHTTPServer], address: str, handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on a free port."""
    with kind((address, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def new_handler() -> type[Answers]:
    return type("Handler", (Answers,), {"seen": []})


def target(address: str, port: int, **headers: str) -> Json:
    return {"demo/a": {"address": address, "port": port, "path": "/health", "headers": headers}}


@pytest.mark.parametrize(
    ("kind", "address"), [(ThreadingHTTPServer, "127.0.0.1"), (ServerV6, "::1"), (ServerV6, "[::1]")]
)
def test_the_health_path_is_asked(
    deployment: Deployment,
    watch: Watcher,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[ThreadingHTTPServer],
    address: str,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    deployment.run(a="exec sleep 300")
    handler = new_handler()
    with serving(kind, address.strip("[]"), handler) as port:
        stream = watch(http=target(address, port, Authorization="Bearer k"))
        first = stream.until(lambda seen: seen["http"] is not None, "an answer")["http"]
        assert first["code"] == 503
        assert first["seconds"] < 5
        handler.status = 200
        stream.until(lambda seen: seen["http"].get("code") == 200, "the answer 200")
    stream.until(lambda seen: seen["http"].get("error") == "refused", "nobody to answer")
    assert handler.seen[0]["path"] == "/health"
    assert handler.seen[0]["Authorization"] == "Bearer k"


def test_a_health_path_that_hangs_holds_nobody_up(helpers: Helpers, deployment: Deployment, watch: Watcher) -> None:
    deployment.run(a="exec sleep 300", b="exec sleep 300")
    handler = new_handler()
    handler.hang = threading.Event()
    with serving(ThreadingHTTPServer, "127.0.0.1", handler) as port:
        stream = watch(http=target("127.0.0.1", port))
        wait_for(lambda: handler.seen, "the question")
        os.kill(deployment.record("b")["pid"], signal.SIGKILL)
        seen = stream.until(lambda seen: seen["process"] == "demo/b" and not seen["alive"], "the death of b")
        assert seen["died_ago"] < 3
        assert len(handler.seen) == 1, "one question at a time"
        handler.hang.set()
    assert helpers().call("ping")["time"] > 0


def test_a_milestone_has_the_health_path_asked_at_once(
    helpers: Helpers, deployment: Deployment, tmp_path: Path
) -> None:
    deployment.run(a=held(tmp_path, "echo ready to roll"))
    deployment.helper.close()
    deployment.helper = helpers(modules=patched(("now - self._begun >= 1.0", "now - self._begun >= 600.0")))
    handler = new_handler()
    with serving(ThreadingHTTPServer, "127.0.0.1", handler) as port:
        stream = deployment.helper.stream(
            "watch",
            run_dir=str(deployment.run_dir),
            http=target("127.0.0.1", port),
            milestones={"demo/a": [["ready", "ready to roll"]]},
        )
        stream.until(lambda seen: (seen["http"] or {}).get("code") == 503, "the first answer")
        handler.status = 200
        go(tmp_path, 0)
        stream.until(lambda seen: (seen["http"] or {}).get("code") == 200, "another answer in the same ten minutes")


def test_a_health_path_that_never_answers_is_a_timeout(helpers: Helpers, deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    deployment.helper.close()
    deployment.helper = helpers(modules=patched(("    LIMIT = 25.0", "    LIMIT = 0.5")))
    handler = new_handler()
    handler.hang = threading.Event()
    with serving(ThreadingHTTPServer, "127.0.0.1", handler) as port:
        stream = deployment.helper.stream("watch", run_dir=str(deployment.run_dir), http=target("127.0.0.1", port))
        stream.until(lambda seen: (seen["http"] or {}).get("error") == "timeout", "the time-out")
        handler.hang.set()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("server_args={'api_key': 'n33dle', 'port': 1}", "server_args={'api_key': '[hidden]', 'port': 1}"),
        ("'admin_api_key': \"n33dle\", 'x': 1", "'admin_api_key': '[hidden]', 'x': 1"),
        ("ssl_keyfile_password='n33dle'", "ssl_keyfile_password='[hidden]'"),
        ("--api-key = 'n33dle'", "--api-key = '[hidden]'"),
        ("'api_key': None, 'served': 'keys'", "'api_key': None, 'served': 'keys'"),
    ],
)
def test_keys_that_the_engine_writes_into_its_log_stay_on_the_node(
    deployment: Deployment, watch: Watcher, line: str, shown: str
) -> None:
    deployment.run(a=f"cat <<'END'\n{line}\nEND\nexit 3")
    deployment.wait_log("a", line)
    wait_for(lambda: deployment.call("records")["processes"][0]["exit"] == {"code": 3}, "the end of a")
    event = watch().next()
    assert event is not None
    (row,) = event["observations"]
    assert (row["line"], row["tail"]) == (shown, [shown])
    assert deployment.call("logs")["logs"]["demo/a"]["lines"] == [shown]
    assert deployment.call("logs", since_offset=0)["logs"]["demo/a"]["lines"] == [shown]


def test_a_process_of_another_boot_is_told_as_such(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    true_boot = deployment.record("a")["boot_id"]
    deployment.alter("a", boot_id="00000000-0000-0000-0000-000000000000")
    watch = deployment.helper.stream("watch", run_dir=str(deployment.run_dir))
    seen = watch.until(lambda seen: not seen["alive"], "the end of a")
    assert (seen["rebooted"], seen["exit"]) == (True, None)
    watch.cancel()
    assert living(pid)
    deployment.alter("a", boot_id=true_boot)


@pytest.mark.parametrize("how", ["cut", "removed"])
def test_what_a_log_has_shown_is_known_after_it_is_gone(deployment: Deployment, how: str) -> None:
    """Logs are cut by people who need space; what serves does not begin to load by that."""
    pid = deployment.run(a="echo loaded; exec sleep 300")["a"]
    patterns = {"demo/a": [["loaded", "^loaded$"], ["ready", "^ready$"]]}
    for _ in range(2):
        watch = deployment.helper.stream("watch", run_dir=str(deployment.run_dir), milestones=patterns)
        watch.until(lambda seen: seen["milestones"] == ["loaded"], "the milestone")
        watch.cancel()
        log = deployment.run_dir / "logs" / "a.log"
        log.write_text("") if how == "cut" else log.unlink(missing_ok=True)
    deployment.kill_all()
    (deployment.run_dir / "logs" / "a.log").write_text("")
    again = deployment.run(a="exec sleep 300")["a"]
    assert again != pid
    watch = deployment.helper.stream("watch", run_dir=str(deployment.run_dir), milestones=patterns)
    assert watch.until(lambda seen: seen["pids"] == 1, "the new process")["milestones"] == []
    watch.cancel()
    deployment.kill_all()
    deployment.call("clear")
    assert sorted(path.name for path in deployment.run_dir.iterdir()) == ["logs"]


def test_a_process_that_is_just_being_started_is_watched_as_well(deployment: Deployment) -> None:
    """Its record stands before its pid is known; a watch that begins at this moment must not fail."""
    pid = deployment.run(a="exec sleep 300")["a"]
    deployment.alter("a", pid=None, start=None)
    watch = deployment.helper.stream("watch", run_dir=str(deployment.run_dir), milestones={"demo/a": [["x", "x"]]})
    assert watch.until(lambda seen: seen["process"] == "demo/a", "the process")["alive"] is True
    deployment.alter("a", pid=pid, start=start_ticks(pid))
    watch.until(lambda seen: seen["pids"] == 1, "its processes")
    watch.cancel()


WORKER = "bash -c 'exec -a sglang::scheduler_TP0 sleep 300' & echo $! >{pid}; wait $!; {then}"
TITLE = {"demo/a": "^sglang::scheduler"}


def worker(tmp_path: Path) -> int:
    """Wait for the worker of a stand-in to have its title, and give its pid."""
    file = tmp_path / "pid"
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"), "the pid of the worker")
    pid = int(file.read_text())
    wait_for(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sglang::"), "the title of the worker")
    return pid


def test_a_worker_that_ends_before_its_process_is_missed(
    deployment: Deployment, watch: Watcher, tmp_path: Path
) -> None:
    """Also by a watch that began after its end."""
    deployment.run(a=WORKER.format(pid=tmp_path / "pid", then="exec sleep 300"))
    pid = worker(tmp_path)
    first = watch(workers=TITLE)
    first.until(lambda seen: seen["pids"] == 2, "both to be counted")
    os.kill(pid, signal.SIGKILL)
    seen = first.until(lambda seen: seen["lost"] is not None, "the loss of the worker")
    first.cancel()
    assert (seen["alive"], seen["lost"]["pid"]) == (True, pid)
    assert seen["lost"]["title"].startswith("sglang::scheduler_TP0")
    assert watch(workers=TITLE).until(lambda seen: seen["lost"] is not None, "the same loss")["alive"] is True


def test_a_process_that_follows_its_worker_says_so(deployment: Deployment, watch: Watcher, tmp_path: Path) -> None:
    deployment.run(a=WORKER.format(pid=tmp_path / "pid", then="sleep 0.6; exit 3"))
    pid = worker(tmp_path)
    stream = watch(workers=TITLE)
    stream.until(lambda seen: seen["pids"] == 2, "both to be counted")
    os.kill(pid, signal.SIGKILL)
    seen = stream.until(lambda seen: not seen["alive"], "the end")
    assert (seen["exit"], seen["lost"]["pid"]) == ({"code": 3}, pid)


def test_a_process_that_goes_with_its_workers_has_lost_none(
    deployment: Deployment, watch: Watcher, tmp_path: Path
) -> None:
    deployment.run(a=WORKER.format(pid=tmp_path / "pid", then="exec sleep 300"))
    worker(tmp_path)
    stream = watch(workers=TITLE)
    stream.until(lambda seen: seen["pids"] == 2, "both to be counted")
    deployment.call("signal", ids=None, scope="tree", signal="KILL")
    assert stream.until(lambda seen: not seen["alive"], "the end")["lost"] is None
