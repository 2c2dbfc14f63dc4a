"""Facts, ports, completions, logs and the audit trail."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.node.deployment import Deployment
from tests.node.test_watch import ServerV6, serving
from tests.node.wire import Helper, Json, RefusedError, patched

Helpers = Callable[..., Helper]


def test_files_are_read_by_path_and_pattern(node: Helper, tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt", "three.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.txt").mkdir()
    os.mkfifo(tmp_path / "fifo.txt")
    (tmp_path / "big.md").write_text("x" * 3_000_000)
    files = node.call("gather", files=[f"{tmp_path}/*.txt", f"{tmp_path}/big.md", f"{tmp_path}/missing"])["files"]
    assert sorted(files) == sorted(f"{tmp_path}/{name}" for name in ("one.txt", "two.txt", "big.md"))
    assert files[f"{tmp_path}/one.txt"] == "one.txt"
    assert len(files[f"{tmp_path}/big.md"]) == 1 << 20


def test_commands_are_run_and_bounded(helpers: Helpers) -> None:
    node = helpers(
        modules=patched(("GATHER_COMMAND, GATHER_LOOK = 10.0, 5.0", "GATHER_COMMAND, GATHER_LOOK = 1.0, 1.0"))
    )
    begin = time.monotonic()
    commands = {
        "well": ["sh", "-c", "echo out; echo err >&2; exit 3"],
        "none": ["/no/such/program"],
        "slow": ["sh", "-c", "echo before; sleep 30"],
        "loud": ["sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"],
        "orphan": ["sh", "-c", "sleep 30 & echo fine"],
        "lang": ["sh", "-c", "echo $LC_ALL; cat"],
    }
    found = node.call("gather", commands=commands)["commands"]
    assert time.monotonic() - begin < 10
    assert found["well"] == {"rc": 3, "out": "out\n", "err": "err\n"}
    assert found["none"]["rc"] == 127
    assert (found["slow"]["rc"], found["slow"]["out"], found["slow"]["timed_out"]) == (124, "before\n", True)
    assert len(found["loud"]["out"]) == 1 << 20
    assert (found["orphan"]["rc"], found["orphan"]["out"]) == (0, "fine\n")
    assert found["lang"]["out"] == "C\n"


def test_paths_are_described(node: Helper, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "link").symlink_to("nowhere")
    names = ("run.sh", "none", "run.sh/below", "link")
    asked = [str(tmp_path), "/dev/null", *(f"{tmp_path}/{name}" for name in names)]
    found = node.call("gather", stat=asked)["stat"]
    assert found[str(tmp_path)]["kind"] == "folder"
    assert found[f"{tmp_path}/run.sh"] == {
        "exists": True, "kind": "file", "mode": "0750", "size": 0, "executable": True, "readable": True
    }  # fmt: skip
    assert (found[f"{tmp_path}/none"]["exists"], found[f"{tmp_path}/none"]["kind"]) == (False, None)
    assert (found[f"{tmp_path}/link"]["exists"], found[f"{tmp_path}/link"]["kind"]) == (False, "dangling-link")
    assert found["/dev/null"]["kind"] == "device"
    assert found[f"{tmp_path}/run.sh/below"]["error"] == "Not a directory"


def test_what_hangs_is_told_in_its_own_place_and_holds_nothing_up(helpers: Helpers, tmp_path: Path) -> None:
    hangs = patched(
        ("GATHER_COMMAND, GATHER_LOOK = 10.0, 5.0", "GATHER_COMMAND, GATHER_LOOK = 10.0, 2.0"),
        (
            "        found = path.stat()\n",
            "        found = __import__('time').sleep(60 * ('dead' in name)) or path.stat()\n",
        ),
    )
    dead = [f"/dead/{k}" for k in range(40)]
    begin = time.monotonic()
    found = helpers(modules=hangs).call(
        "gather", stat=[*dead, str(tmp_path)], space=[str(tmp_path)], files=["/proc/uptime"]
    )
    assert time.monotonic() - begin < 8
    assert {found["stat"][path].get("error") for path in dead} == {"no answer within 2 s"}
    assert found["stat"][str(tmp_path)]["kind"] == "folder"
    assert found["space"][str(tmp_path)]["free"] > 0
    assert list(found["files"]) == ["/proc/uptime"]


def test_programs_and_variables_of_a_session_are_told(helpers: Helpers, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "folder").mkdir()
    session = {"PATH": f"/no/such:{tmp_path}:/usr/bin:/bin", "HTTP_proxy": "http://p:1", "no_proxy": "", "OTHER": "x"}
    asked = {"programs": ["tool", "folder", "none", "sh"], "environ": ["http_proxy", "no_proxy"]}
    found = helpers(env=session).call("gather", **asked)
    assert found["programs"] == {
        "tool": f"{tmp_path}/tool",
        "folder": None,
        "none": None,
        "sh": shutil.which("sh", path="/usr/bin:/bin"),
    }
    assert {name: found["environ"][name] for name in ("HTTP_proxy", "no_proxy")} == {
        "HTTP_proxy": "http://p:1",
        "no_proxy": "",
    }
    assert "OTHER" not in found["environ"]
    assert found["machine"] == {"arch": os.uname().machine, "page_size": os.sysconf("SC_PAGE_SIZE")}


def test_space_is_told_where_a_folder_would_be(node: Helper, tmp_path: Path) -> None:
    path = f"{tmp_path}/not/yet/there"
    found = node.call("gather", space=[path])["space"][path]
    assert found["nearest"] == str(tmp_path)
    assert 0 < found["free"] <= found["total"]
    assert found["writable"] is True


@pytest.fixture
def listener() -> Iterator[Callable[[str], int]]:
    opened: list[socket.socket] = []

    def listen(address: str) -> int:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        opened.append(sock)
        sock.bind((address, 0))
        sock.listen()
        port: int = sock.getsockname()[1]
        return port

    yield listen
    for sock in opened:
        sock.close()


@pytest.mark.parametrize(
    ("listens", "asked", "overlap"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "0.0.0.0", True),
        ("0.0.0.0", "127.0.0.2", True),
        ("::", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::1", "[::1]", True),
        ("::1", "::", True),
        ("::1", "127.0.0.1", False),
        ("127.0.0.1", "localhost", True),
    ],
)
def test_ports_that_are_taken_are_found(
    node: Helper, listener: Callable[[str], int], listens: str, asked: str, overlap: bool
) -> None:
    port = listener(listens)
    found = node.call("ports", ports=[{"address": asked, "port": port}])["listening"]
    assert [(row["address"], row["port"], row["pid"]) for row in found] == [(asked, port, os.getpid())] * overlap


def test_a_free_port_is_not_taken(node: Helper, listener: Callable[[str], int]) -> None:
    used = listener("127.0.0.1")
    assert (
        node.call("ports", ports=[{"address": "127.0.0.1", "port": used - 1 if used > 1024 else 1}])["listening"] == []
    )


def test_the_command_of_a_listener_hides_keys(node: Helper) -> None:
    script = (
        "import socket,time; s=socket.create_server(('127.0.0.1',0));"
        "print(s.getsockname()[1],flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", script, "--api-key", "s3cr3t", "--token=s3cr3t", "--port", "1"]
    stranger = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout is not None
        port = int(stranger.stdout.readline())
        [found] = node.call("ports", ports=[{"address": "127.0.0.1", "port": port}])["listening"]
        assert found["pid"] == stranger.pid
        assert "s3cr3t" not in found["command"]
    finally:
        stranger.kill()
        stranger.wait()


class Completions(BaseHTTPRequestHandler):
    """Answers a completion as told."""

    status = 200
    answer: Json | str = ""
    asked: list[Json]

    def do_POST(self) -> None:
        """Answer."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def completion(text: str, **more: object) -> Json:
    return {"choices": [{"text": text}], **more}


def answering(answer: Json | str, status: int) -> type[Completions]:
    return type("Handler", (Completions,), {"answer": answer, "status": status, "asked": []})


def ask(node: Helper, address: str, port: int, **more: object) -> Json:
    question = {"model": "m", "prompt": "Hi", "max_tokens": 8, "api_key": None, "timeout": 5, **more}
    return node.call("complete", address=address, port=port, **question)


@pytest.mark.parametrize(("kind", "address"), [(ThreadingHTTPServer, "127.0.0.1"), (ServerV6, "::1")])
def test_a_completion_comes_back(node: Helper, kind: type[ThreadingHTTPServer], address: str) -> None:
    answer = completion(" there", usage={"completion_tokens": 8})
    handler = answering(answer, 200)
    with serving(kind, address, handler) as port:
        got = ask(node, address, port, api_key="k3y")
    assert (got["status"], got["tokens"], got["text"], got["error"]) == (200, 8, " there", None)
    assert got["seconds"] < 5
    assert handler.asked == [
        {
            "path": "/v1/completions",
            "key": "Bearer k3y",
            "model": "m",
            "prompt": "Hi",
            "max_tokens": 8,
            "temperature": 0,
        }
    ]


@pytest.mark.parametrize(
    ("status", "answer", "tokens", "error"),
    [
        (200, completion("three little words"), 3, None),
        (200, completion(""), 0, None),
        (200, completion("", usage={"completion_tokens": 0}), 0, None),
        (503, "not  yet\n", 0, "HTTP 503: not yet"),
        (401, "", 0, "HTTP 401: empty body"),
        (200, "<html>", 0, "the answer is no completion: <html>"),
        (200, {"choices": []}, 0, 'the answer is no completion: {"choices": []}'),
        (200, "[]", 0, "the answer is no completion: []"),
    ],
)
def test_whatever_comes_back_is_told(node: Helper, status: int, answer: Json, tokens: int, error: str | None) -> None:
    handler = answering(answer, status)
    with serving(ThreadingHTTPServer, "127.0.0.1", handler) as port:
        got = ask(node, "127.0.0.1", port)
    assert (got["status"], got["tokens"], got["error"]) == (status, tokens, error)


def streamed(*texts: str, **last: object) -> str:
    chunks = [*(completion(text, usage=None) for text in texts), *([{"choices": [], **last}] if last else [])]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


class Dribbling(Completions):
    """Sends a stream line by line, with a pause before each but the first."""

    def do_POST(self) -> None:
        """Answer piece by piece."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for number, line in enumerate(streamed(" one", " two", usage={"completion_tokens": 7}).splitlines(True)):
            if number:
                time.sleep(0.05)
            self.wfile.write(line.encode())


def test_the_first_token_of_a_stream_is_timed(node: Helper) -> None:
    with serving(ThreadingHTTPServer, "127.0.0.1", Dribbling) as port:
        got = ask(node, "127.0.0.1", port, stream=True)
    assert (got["status"], got["tokens"], got["text"], got["error"]) == (200, 7, " one two", None)
    assert got["seconds"] - got["first_token"] >= 0.3  # seven more lines, each 0.05 s later


@pytest.mark.parametrize(
    ("answer", "tokens", "text", "error"),
    [
        (streamed(" a", "", " b"), 2, " a b", None),
        (streamed("", usage={"completion_tokens": 0}), 0, "", None),
        ("data: [1]\n\ndata: {\n\ndata: [DONE]\n", 0, "", None),
        (
            'data: {"error": {"message": "no"}}\n',
            0,
            "",
            'the stream ended with an error: data: {"error": {"message": "no"}}',
        ),
        (completion(" whole", usage={"completion_tokens": 4}), 4, " whole", None),
    ],
)
def test_whatever_is_streamed_is_told(
    node: Helper, answer: Json | str, tokens: int, text: str, error: str | None
) -> None:
    handler = answering(answer, 200)
    with serving(ThreadingHTTPServer, "127.0.0.1", handler) as port:
        got = ask(node, "127.0.0.1", port, stream=True)
    assert (got["tokens"], got["text"], got["error"]) == (tokens, text, error)
    assert (got["first_token"] is None) is (" a" not in text)
    assert (handler.asked[0]["stream"], handler.asked[0]["stream_options"]) == (True, {"include_usage": True})


def test_no_answer_is_told_and_bounded(node: Helper, listener: Callable[[str], int]) -> None:
    port = listener("127.0.0.1")
    begin = time.monotonic()
    got = ask(node, "127.0.0.1", port, timeout=0.5)
    assert (got["status"], got["error"]) == (None, "timeout")
    assert time.monotonic() - begin < 5


def test_a_refused_connection_is_told(node: Helper) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert ask(node, "127.0.0.1", free.getsockname()[1])["error"] == "refused"


def test_a_key_that_http_forbids_is_not_shown(node: Helper) -> None:
    error = ask(node, "127.0.0.1", 9, api_key="s3cr3t\nX: y")["error"]
    assert error
    assert "s3cr3t" not in error


def test_logs_give_the_end_and_what_was_added(deployment: Deployment) -> None:
    deployment.run(a="for n in 1 2 3 4 5; do echo line $n; done")
    deployment.wait_log("a", "line 5\n")
    got = deployment.call("logs", ids=["demo/a"], tail=2)["logs"]["demo/a"]
    assert (got["lines"], got["size"]) == (["line 4", "line 5"], 35)
    assert got["path"] == str(deployment.run_dir / "logs" / "a.log")
    with (deployment.run_dir / "logs" / "a.log").open("a") as log:
        log.write("line 6\n")
    for since in (35, {"demo/a": 35}):
        more = deployment.call("logs", ids=["demo/a"], since_offset=since)["logs"]["demo/a"]
        assert (more["lines"], more["size"]) == (["line 6"], 42)


def test_each_action_is_one_line_of_the_audit_trail(deployment: Deployment) -> None:
    deployment.call("audit", who="me@laptop", what="up\nx.yaml")
    deployment.call("audit", who="me@laptop", what="down")
    first, second = (deployment.run_dir / "audit.log").read_text().splitlines()
    assert first.split(" ", 1)[1] == "me@laptop: up x.yaml"
    assert second.endswith("Z me@laptop: down")


def test_files_keep_their_mode_and_bytes(deployment: Deployment) -> None:
    files = [
        {"path": "bin/run", "mode": "0755", "base64": "AP+A"},
        {"path": "note.txt", "mode": "0640", "text": "na\u00efve \udcff"},
    ]
    deployment.call("prepare", plan={}, scripts={"a": "exit 0"}, files=files)
    assert (deployment.run_dir / "bin" / "run").read_bytes() == b"\x00\xff\x80"
    assert (deployment.run_dir / "bin" / "run").stat().st_mode & 0o777 == 0o755
    assert (deployment.run_dir / "note.txt").read_bytes() == "na\u00efve ".encode() + b"\xff"
    assert not [path for path in deployment.run_dir.rglob("*") if path.name.endswith(".tmp")]
    deployment.call("clear")
    assert not (deployment.run_dir / "bin").exists()


def test_nothing_on_record_is_no_error(deployment: Deployment) -> None:
    records = deployment.call("records")
    assert (records["launch"], records["plan"], records["processes"]) == (None, None, [])
    assert records["boot_id"] == deployment.helper.hello["boot_id"]
    with pytest.raises(RefusedError, match="unknown-process"):
        deployment.call("logs", ids=["demo/a"])
