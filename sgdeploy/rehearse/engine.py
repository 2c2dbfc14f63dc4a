"""The simulated engine: behaves like a rank of SGLang 0.5.23 (or of its Kunpeng fork) and computes nothing.

One file of standard-library Python (3.7 and newer), run as ``python3 -I -S engine.py <engine flags>`` and imported
by nobody. docs/rehearsal.md lists what it imitates, where each behaviour was observed, and every knob.

Who is who: *main* parses the flags, owns the HTTP port and the children; one *scheduler* per local rank meets the
other ranks over TCP (a star around rank 0 stands for torch.distributed) and "loads"; the leader also has a
*detokenizer*. All three are forks of one interpreter, blocked in poll() or recv() while nothing happens. Every log
line has the wording of the real one, because milestones and diagnosis read them. tests/engine/ asks both engines
the same questions and compares what they show.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
from heapq import heappop, heappush

TYPE_CHECKING = False  # typing itself is never imported: it would cost every rank some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

BANNER = """\
/engine/sglang/launch_server.py:71: UserWarning: 'python -m sglang.launch_server' is still supported, but \
'sglang serve' is the recommended entrypoint.
  Example: sglang serve --model-path <model> [options]
  warnings.warn(
/engine/sglang/srt/layers/quantization/awq/awq.py:53: UserWarning: Only CUDA, HIP and XPU support AWQ currently."""
MAIN_FRAMES = """\
Traceback (most recent call last):
  File "/engine/sglang/launch_server.py", line 84, in <module>
    run_server(server_args)
  File "/engine/sglang/srt/entrypoints/engine.py", line 1350, in _launch_subprocesses
    scheduler_init_result.wait_for_ready()"""
SCHEDULER_FRAMES = """\
Scheduler hit an exception: Traceback (most recent call last):
  File "/engine/sglang/srt/managers/scheduler.py", line 6368, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)"""
ALIASES = {
    "--model": "--model-path",
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--pp": "--pp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--dp": "--dp-size",
    "--data-parallel-size": "--dp-size",
    "--ep": "--ep-size",
    "--expert-parallel-size": "--ep-size",
    "--nccl-init-addr": "--dist-init-addr",
}
PHASE_OF = {  # where a fault strikes that names no phase
    "unknown-flag": "start",
    "401": "start",
    "no-tokens": "start",
    "port-taken": "start",
    "never-join": "init",
    "rendezvous-taken": "init",
    "slow-load": "load",
    "oom": "load",
}
PHASES = ("start", "init", "load", "warmup", "serve")
MODES = (*PHASE_OF, "die", "exit", "crash", "hang", "wedge", "escape", "green-but-dead")
MAIN_FAULTS = ("die", "exit", "401", "no-tokens", "port-taken", "escape", "green-but-dead")
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "rain", "falls")
NATURAL_LENGTH = 32  # tokens after which a completion stops by itself
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
HEALTHS = ("/health", "/health_generate")
FLAGS = ("/ping", "/ready")  # answered at once, from what the last health check found
COMPLETIONS = ("/v1/completions", "/v1/chat/completions", "/generate")
OPERATIONS = ("/freeze_gc", "/flush_cache")
INFOS = ("/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/models")
METHODS = {
    **dict.fromkeys(("/", *HEALTHS, *FLAGS, *INFOS), ("GET",)),
    **dict.fromkeys(COMPLETIONS, ("POST",)),
    **dict.fromkeys(OPERATIONS, ("GET", "POST")),
}
OPENED = ("/health", "/ready", "/metrics")  # what begins like this never asks for the key
NOT_FOUND = b'{"detail":"Not Found"}'
NOT_ALLOWED = b'{"detail":"Method Not Allowed"}'
MAX_REQUEST = 16 << 20


class UsageError(Exception):
    """The command line is one that the engine's own parser refuses (exit code 2)."""


class CrashError(Exception):
    """An exception inside a scheduler; the text is the last line of its traceback."""


def setting(name: str, default: float) -> float:
    """Read a number from the environment; what is no number counts as unset."""
    try:
        return float(os.environ[name])
    except (KeyError, ValueError):
        return default


SPEED = max(setting("SGDEPLOY_REHEARSE_SPEED", 1.0), 0.001)
HEALTH_SECONDS = setting("SGDEPLOY_REHEARSE_HEALTH_SECONDS", 1.0)  # the real one looks again after exactly 1 s
HEALTH_LIMIT = setting("SGLANG_HEALTH_CHECK_TIMEOUT", 20.0)  # the engine's own variable and default
DECODE_SECONDS = setting("SGDEPLOY_REHEARSE_DECODE_SECONDS", 0.0)


def read_file(path: str) -> str:
    """Read a small file without the cost of importing pathlib or io's text layer."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 20).decode(errors="replace")
    finally:
        os.close(fd)


def emit(text: str) -> None:
    """Write whole lines in one call, so that lines of several processes never mix; a closed log is no error."""
    try:
        os.write(1, (text + "\n").encode())
    except OSError:
        return


def log(text: str, label: str = "") -> None:
    """Write a log line as the engine does: ``[date time LABEL] text``."""
    emit("[" + time.strftime("%Y-%m-%d %H:%M:%S") + label + "] " + text)


# ----------------------------------------------------------------------------------------------- flags


def scan(words: list[str]) -> dict[str, list[str]]:
    """Split a command line by shape: a word that starts with ``--`` is a flag, all until the next are its values."""
    found: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("--") and len(word) > len("--"):
            name, equals, value = word.partition("=")
            values = [value] if equals else []
            found[ALIASES.get(name, name)] = values
        elif values is None:
            raise UsageError("unrecognized arguments: " + word)
        else:
            values.append(word)
    return found


def scan_config(path: str) -> dict[str, list[str]]:
    """Read the ``key: value`` lines of a ``--config`` file as flags."""
    found: dict[str, list[str]] = {}
    try:
        lines = read_file(path).splitlines()
    except OSError as error:
        raise UsageError("argument --config: " + str(error)) from None
    for line in lines:
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip().strip("\"'")
        if not colon or key.startswith("#") or value in {"false", "null"}:
            continue
        name = "--" + key.replace("_", "-")
        found[ALIASES.get(name, name)] = [] if value == "true" else [value]
    return found


class Settings:
    """What the engine reads from its flags, and where this process stands in the cluster."""

    def __init__(self, words: list[str]) -> None:
        """Parse.

        Raises:
            UsageError: as the engine's own parser would, with its wording.
        """
        flags = scan(words)
        if "--config" in flags:
            flags = {**scan_config(self._text(flags, "--config")), **flags}  # the command line wins
        self.flags = flags
        if "--model-path" not in flags:
            raise UsageError("the following arguments are required: --model-path/--model")
        self.model = self._text(flags, "--model-path")
        self.served = self._text(flags, "--served-model-name", self.model)
        self.host = self._text(flags, "--host", "127.0.0.1")
        self.port = self._number("--port", 30000)
        self.nnodes = self._number("--nnodes", 1)
        self.node_rank = self._number("--node-rank", 0)
        self.tp = self._number("--tp-size", 1)
        self.pp = self._number("--pp-size", 1)
        self.dp = self._number("--dp-size", 1)
        self.ep = self._number("--ep-size", 1)
        self.rank_launch = "--tp-rank-in-node" in flags
        self.rank_in_node = self._number("--tp-rank-in-node", 0)
        self.dist_timeout = self._number("--dist-timeout", 1800)  # torch's own default, in seconds
        self.kv_tokens = self._number("--max-total-tokens", 8192)
        self.bootstrap_port = self._number("--disaggregation-bootstrap-port", 8998)
        self.mode = self._text(flags, "--disaggregation-mode", "null")
        self.api_key = self._text(flags, "--api-key", "")
        self.skip_warmup = "--skip-server-warmup" in flags
        self.metrics = "--enable-metrics" in flags
        self.dp_attention = "--enable-dp-attention" in flags
        address, _, port = self._text(flags, "--dist-init-addr", "").rpartition(":")
        self.rendezvous: tuple[str, int] | None = None
        if address and port.isdigit():
            self.rendezvous = (address.strip("[]"), int(port))
        separate = os.environ.get("SGLANG_ENABLE_TOKENIZER_SEPERATE") == "1"
        self.http_only = separate and os.environ.get("SGLANG_LAUNCH_HTTP_ONLY") == "1"
        self.skip_http = separate and not self.http_only and os.environ.get("SGLANG_SKIP_HTTP") == "1"
        self.per_node = max(1, self.tp * self.pp // self.nnodes)
        self.world = self.nnodes * self.per_node
        self.leader = self.node_rank == 0 and self.rank_in_node == 0

    @staticmethod
    def _text(flags: dict[str, list[str]], name: str, default: str | None = None) -> str:
        values = flags.get(name)
        if values:
            return values[0]
        if values is None and default is not None:
            return default
        raise UsageError("argument " + name + ": expected one argument")

    def _number(self, name: str, default: int) -> int:
        text = self._text(self.flags, name, str(default))
        try:
            return int(text)
        except ValueError:
            raise UsageError("argument " + name + ": invalid int value: '" + text + "'") from None

    @property
    def local_ranks(self) -> list[int]:
        """World ranks of this process: one in a rank launch, all of the node in a node launch."""
        first = self.node_rank * self.per_node
        if self.rank_launch:
            return [first + self.rank_in_node]
        return list(range(first, first + self.per_node))

    def label(self, rank: int) -> str:
        """Give the engine's log prefix of a world rank: `` TP3``, `` DP0 PP1 TP3 EP3``, or "" for a single one."""
        tp_rank = rank % self.tp
        parts = []
        if self.dp > 1 and self.dp_attention:
            parts.append(" DP" + str(tp_rank * self.dp // self.tp))
        if self.pp > 1:
            parts.append(" PP" + str(rank // self.tp))
        if self.tp > 1:
            parts.append(" TP" + str(tp_rank))
        if self.ep > 1:
            parts.append(" EP" + str(tp_rank * self.ep // self.tp))
        return "".join(parts)

    def described(self) -> str:
        """Give the text after ``server_args=``; the API key is in it, as in the real one's."""
        shown: dict[str, object] = {"model_path": self.model, "served_model_name": self.served}
        for name, values in self.flags.items():
            if name != "--model-path":
                shown[name[2:].replace("-", "_")] = " ".join(values) if values else True
        return str(shown)


class Faults:
    """The failures this process was asked for: ``mode[=value][@phase][:nXrY]``, separated by commas or spaces."""

    def __init__(self, text: str, settings: Settings) -> None:
        """Keep those whose selector fits this node; a rank part is compared per scheduler.

        Raises:
            UsageError: a mode, phase or selector that nobody knows; else a test of a failure would test nothing.
        """
        self.items: list[tuple[str, str, str, int | None]] = []
        for item in text.replace(",", " ").split():
            head, _, selector = item.partition(":")
            head, _, phase = head.partition("@")
            mode, _, value = head.partition("=")
            if mode.startswith("exit"):
                mode, value = "exit", mode[4:] or value or "1"
            phase = phase or PHASE_OF.get(mode, "serve")
            node, _, rank = selector.lstrip("n").partition("r")
            if mode not in MODES or phase not in PHASES or not (node + rank + "0").isdigit():
                raise UsageError("SGDEPLOY_REHEARSE_FAIL: cannot read " + item)
            wrong_node = node and int(node) != settings.node_rank
            if wrong_node or (settings.rank_launch and rank and int(rank) != settings.rank_in_node):
                continue
            self.items.append((mode, value, phase, int(rank) if rank else None))

    def due(self, phase: str, rank_in_node: int | None = None) -> list[tuple[str, str]]:
        """Give (mode, value) of the faults that strike in a phase, for one scheduler or (None) for main."""
        return [
            (m, v) for m, v, p, r in self.items if p == phase and (rank_in_node is None or r in {None, rank_in_node})
        ]


# ------------------------------------------------------------------------------------- process plumbing


def retitle(title: str) -> None:
    """Rewrite this process's title as setproctitle does in the engine, environment area and all.

    What ``/proc/PID/environ`` shows is gone afterwards unless ``SPT_NOENV`` is set. A kernel that does not allow
    it leaves the process as it was.
    """
    try:
        comm = os.open("/proc/self/comm", os.O_WRONLY)
        try:
            os.write(comm, title[:15].encode())
        finally:
            os.close(comm)
        fields = read_file("/proc/self/stat").rpartition(")")[2].split()
        arg_start, arg_end, env_start, env_end = (int(field) for field in fields[45:49])  # proc(5), 48 to 51
        memory = os.open("/proc/self/mem", os.O_RDWR)
        try:
            room = arg_end - arg_start
            os.pwrite(memory, title.encode()[: room - 1].ljust(room, b"\0"), arg_start)
            if "SPT_NOENV" not in os.environ:
                os.pwrite(memory, bytes(env_end - env_start), env_start)
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError):
        return


def endpoint(host: str, port: int) -> tuple[socket.socket, Any]:
    """Make a TCP socket of the address's family, and the address in the form that this family takes.

    Raises:
        OSError: the name does not resolve.
    """
    name = host.encode()  # given a str, getaddrinfo imports the idna codec: 5 ms and a megabyte for every rank
    family, kind, proto, _, address = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)[0]
    return socket.socket(family, kind, proto), address


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket on one address.

    Raises:
        OSError: the port is taken, or the address is not ours.
    """
    sock, address = endpoint(host, port)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def connect(host: str, port: int, limit: float) -> socket.socket:
    """Connect within so many seconds.

    Raises:
        OSError: nobody listens there, or nobody answers.
    """
    sock, address = endpoint(host, port)
    sock.settimeout(limit)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


class Loop:
    """A small event loop: readable sockets and timers; blocked in poll() while there is nothing to do."""

    def __init__(self) -> None:
        """Start empty."""
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call back whenever the descriptor is readable or closed."""
        self._watched[fd] = call
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """Watch it no longer."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back once, later; the seconds are not scaled."""
        self._serial += 1
        heappush(self._timers, (time.monotonic() + seconds, self._serial, call))

    def turn(self, until: float | None = None) -> None:
        """Block until something happened or the monotonic time has come; run what is due."""
        limits = [t for t in (until, self._timers[0][0] if self._timers else None) if t is not None]
        wait = None if not limits else max(0, int((min(limits) - time.monotonic()) * 1000) + 1)
        for fd, _ in self._poll.poll(wait):
            call = self._watched.get(fd)
            if call is not None:
                call()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heappop(self._timers)[2]()

    def wait(self, done: Callable[[], bool], seconds: float | None = None) -> bool:
        """Turn until the condition holds (True) or the time is over (False)."""
        until = None if seconds is None else time.monotonic() + seconds
        while not done():
            if until is not None and time.monotonic() >= until:
                return False
            self.turn(until)
        return True


class Wire:
    """A socket that carries lines; ``on_end`` is called once when the other side is gone."""

    def __init__(
        self, loop: Loop, sock: socket.socket, on_line: Callable[[Wire, str], None], on_end: Callable[[Wire], None]
    ) -> None:
        """Watch the socket from now on."""
        self.loop, self.sock, self.on_line, self.on_end = loop, sock, on_line, on_end
        self.rank = -1
        self._buffer = b""
        sock.setblocking(False)
        loop.watch(sock.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self.on_end(self)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self.on_line(self, line.decode())

    def send(self, text: str) -> None:
        """Send one line; whoever is gone is noticed by the reading side."""
        try:
            self.sock.send(text.encode() + b"\n")
        except OSError:
            return

    def close(self) -> None:
        """Close; ``on_end`` is not called."""
        if self.sock.fileno() >= 0:
            self.loop.forget(self.sock.fileno())
            self.sock.close()


def import_everything(main: int) -> bool:
    """Spend the time in which a child of the real engine imports; tell whether main still lives afterwards.

    Only then does a child ask the kernel to be killed when its parent ends. What ended before is not noticed: a
    child of such a main lives on for ever.
    """
    time.sleep(0.1 / SPEED)
    return os.getppid() == main


# -------------------------------------------------------------------------------------------- scheduler


class Scheduler:
    """One rank: joins the others, loads, then answers rank 0's rounds until it is told to go."""

    def __init__(
        self, settings: Settings, faults: Faults, rank: int, main: socket.socket, meeting: socket.socket | None
    ) -> None:
        """Belong to main over one end of a socket pair; ``meeting`` replaces the rendezvous of a lone node."""
        self.settings, self.faults, self.rank = settings, faults, rank
        self.meeting = meeting
        self.index = rank % settings.per_node
        self.label = settings.label(rank)
        self.loop = Loop()
        self.main = Wire(self.loop, main, self._from_main, self._main_ended)
        self.peers: dict[int, Wire] = {}
        self.hub: Wire | None = None  # the line to rank 0
        self.at: dict[str, set[int]] = {}  # barrier → ranks that arrived (rank 0)
        self.passed: set[str] = set()  # barriers that are open (other ranks)
        self.rounds: dict[str, set[int]] = {}  # round → ranks that have not answered (rank 0)
        self.stage = "start"
        self.stuck = False  # hangs for good: hears main's end and nothing else
        self.greeted = False
        self.orphan = False  # main ended so early that this rank will never know

    def log(self, text: str) -> None:
        """Write a log line with this rank's label."""
        log(text, self.label)

    def pause(self, seconds: float) -> None:
        """Let scaled time pass, while losses are noticed."""
        self.loop.wait(lambda: False, seconds / SPEED)

    def run(self, parent: int) -> NoReturn:
        """Live; a crash is told to main, as the real one sends SIGQUIT to its parent."""
        self.orphan = not import_everything(parent)
        retitle("sglang::scheduler" + self.label.replace(" ", "_"))
        try:
            self._start()
            while True:
                self.loop.turn()
        except CrashError as error:
            self.log(SCHEDULER_FRAMES + "\n" + str(error) + "\n")
            self.main.send("quit")
            os._exit(1)

    def _start(self) -> None:
        # the Kunpeng fork (rank launch) descends from 0.5.11, which says "torch distributed"
        what = "torch distributed" if self.settings.rank_launch else "parallel"
        self.log("Init " + what + " begin.")
        began = time.monotonic()
        self.phase("init")
        self._join()
        self.log(f"Init {what} ends. elapsed={time.monotonic() - began:.2f} s")
        self.log("Load weight begin. avail mem=21.68 GB")
        began = time.monotonic()
        self.pause(0.15)
        self.phase("load")
        self.pause(0.15)
        took = time.monotonic() - began
        self.log(
            f"Load weight end. elapsed={took:.2f} s, type=LlamaForCausalLM, avail mem=21.60 GB, mem usage=0.08 GB."
        )
        self._barrier("loaded")  # memory is profiled by all ranks together
        self.pause(0.1)
        tokens = self.settings.kv_tokens
        self.log(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: 0.00 GB, V size: 0.00 GB")
        self.log("Memory pool end. avail mem=21.55 GB")
        if self.rank == 0:
            self.log(
                f"max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
                "max_running_requests=2048, context_len=16384, available_cpu_mem=21.55 GB"
            )
        if self.orphan:
            raise CrashError("BrokenPipeError: [Errno 32] Broken pipe")
        self.main.send("ready")
        self.loop.after(0.3 / SPEED, lambda: self.phase("warmup"))  # where no warm-up round comes first

    def _main_ended(self, _wire: Wire) -> None:
        if not self.orphan:
            os._exit(0)

    # -- faults

    def phase(self, name: str) -> None:
        """Enter a phase once, and suffer what was asked for it."""
        if PHASES.index(name) <= PHASES.index(self.stage):
            return
        self.stage = name
        if name == "warmup":
            self.loop.after(1.0 / SPEED, lambda: self.phase("serve"))
        for mode, value in self.faults.due(name, self.index):
            self.suffer(mode, value)

    def suffer(self, mode: str, value: str) -> None:
        """Fail in one of the ways of docs/rehearsal.md."""
        if mode in MAIN_FAULTS:
            self.main.send("fail " + mode + " " + value)
            if mode == "green-but-dead":
                os.kill(os.getpid(), signal.SIGKILL)
            if mode in {"die", "exit"}:
                self.hang()
        elif mode == "oom":
            os.kill(os.getpid(), signal.SIGKILL)
        elif mode == "crash":
            raise CrashError("RuntimeError: rehearsed failure of rank " + str(self.rank))
        elif mode == "rendezvous-taken":
            raise self._taken(self.settings.rendezvous or ("", 0))
        elif mode == "slow-load":
            self.loop.wait(lambda: False, float(value or "5"))
        elif mode in {"hang", "never-join"} and self.stage in {"init", "load"}:
            self.hang()
        elif mode in {"hang", "wedge"}:
            self.stuck = True

    def hang(self) -> NoReturn:
        """Do nothing any more; only the end of main ends it."""
        self.stuck = True
        while True:
            self.loop.turn()

    # -- the other ranks

    @staticmethod
    def _taken(address: tuple[str, int]) -> CrashError:
        return CrashError(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            f"port: {address[1]}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        )

    def _join(self) -> None:
        address = self.settings.rendezvous
        if address is None:
            return  # a single rank meets nobody
        if self.rank == 0:
            self._open(address)
            limit = self.settings.dist_timeout
            if not self.loop.wait(lambda: len(self.peers) == self.settings.world - 1, limit):
                raise CrashError(
                    f"torch.distributed.DistStoreError: Timed out after {limit + 1} seconds waiting for clients. "
                    f"{len(self.peers) + 1}/{self.settings.world} clients joined."
                )
        else:
            self._connect(address)
        self._barrier("join")

    def _open(self, address: tuple[str, int]) -> None:
        try:
            listener = self.meeting or listen(*address)
        except OSError:
            raise self._taken(address) from None

        def accept() -> None:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            Wire(self.loop, sock, self._from_peer, self._lost)

        self.loop.watch(listener.fileno(), accept)

    def _connect(self, where: tuple[str, int]) -> None:
        began, delay, warned = time.monotonic(), 0.05, False
        while not self.greeted:
            if self.hub is None:
                try:
                    sock = connect(*where, 2.0)
                    self.hub = Wire(self.loop, sock, self._from_hub, self._lost)
                    self.hub.send(f"JOIN {self.rank}")
                except OSError:
                    self.loop.wait(lambda: False, delay)
                    delay = min(delay * 1.5, 0.5)
            if self.hub is not None:
                self.loop.wait(lambda: self.greeted or self.hub is None, 1.0)
            limit = self.settings.dist_timeout
            if not warned and time.monotonic() - began > limit:
                warned = True  # the real one goes on trying for ever, too
                emit(
                    time.strftime("[E%m%d %H:%M:%S.000000000")
                    + f" socket.cpp:1028] [c10d] The client socket has timed out after {limit}000ms "
                    f"while trying to connect to ({where[0]}, {where[1]})."
                )

    def _barrier(self, name: str) -> None:
        if self.rank == 0:
            arrived = self.at.setdefault(name, set())
            self.loop.wait(lambda: len(arrived) == self.settings.world - 1)
            for peer in self.peers.values():
                peer.send("GO " + name)
        elif self.hub is not None:
            self.hub.send("AT " + name)
            self.loop.wait(lambda: name in self.passed)

    def _lost(self, wire: Wire) -> None:
        if self.stuck:
            return
        if self.rank == 0:
            known = self.peers.pop(wire.rank, None)
            if known is None or len(self.at.get("join", ())) < self.settings.world - 1:
                return  # it had not joined for good
            raise CrashError(
                "RuntimeError: [gloo/transport/tcp/pair.cc:545] Read error: Connection reset by peer. This is "
                "typically caused by a remote worker hanging or bugs in the application."
            )
        if not self.greeted:
            self.hub = None  # somebody else's port: try again
            return
        raise CrashError(
            "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer. This is typically caused by a "
            "remote worker crashing."
        )

    def _from_peer(self, wire: Wire, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "JOIN":
            wire.rank = int(rest)
            self.peers[wire.rank] = wire
            wire.send("HI")
        elif word == "AT":
            self.at.setdefault(rest, set()).add(wire.rank)
        elif word == "PONG" and rest in self.rounds:
            self.rounds[rest].discard(wire.rank)
            self._settle(rest)

    def _from_hub(self, wire: Wire, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "HI":
            self.greeted = True
        elif word == "GO":
            self.passed.add(rest)
        elif word == "PING":
            self.phase("warmup")
            if not self.stuck:
                wire.send("PONG " + rest)
        elif word == "BYE" and not self.stuck:
            wire.close()
            self.pause(0.8)
            os._exit(0)

    def _settle(self, number: str) -> None:
        if not self.rounds[number] and not self.stuck:
            del self.rounds[number]
            self.log(
                "Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, "
                "#queue-req: 0, #pending-token: 0, cpu graph: False, input throughput (token/s): 0.91"
            )
            self.main.send("done " + number)

    def _from_main(self, _wire: Wire, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "ask":
            self.phase("warmup")
            self.rounds[rest] = set(self.peers)
            for peer in self.peers.values():
                peer.send("PING " + rest)
            self._settle(rest)
        elif word == "fail":
            mode, _, value = rest.partition(" ")
            self.suffer(mode, value)
        elif word == "shutdown":
            self.stuck = True  # peers may go now
            for peer in self.peers.values():
                peer.send("BYE")
            self.loop.wait(lambda: all(peer.sock.fileno() < 0 for peer in self.peers.values()), 1.0)
            os._exit(0)


# ------------------------------------------------------------------------------------------------- HTTP


class Request:
    """One HTTP request; ``reply`` may be called at once, later, or never (the engine hangs)."""

    def __init__(self, connection: Connection, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Hold what was asked."""
        self.connection, self.method, self.target = connection, method, target
        self.path = target.partition("?")[0]
        self.headers, self.body = headers, body

    def reply(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        """Answer, and write the access line as uvicorn does."""
        self.connection.reply(self, status, body, kind)


class Connection:
    """One client of a simulated server: requests one after the other, kept alive as HTTP/1.1 has it."""

    def __init__(self, server: Server, sock: socket.socket, peer: str) -> None:
        """Watch the socket."""
        self.server, self.sock, self.peer = server, sock, peer
        self._buffer = b""
        self._busy = False
        sock.settimeout(5.0)  # answers are small: a client that does not take one for 5 s is gone
        server.loop.watch(sock.fileno(), self._read)

    def close(self) -> None:
        """Close; a late reply is then dropped."""
        if self.sock.fileno() >= 0:
            self.server.loop.forget(self.sock.fileno())
            self.sock.close()

    def _read(self) -> None:
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        self._buffer += data
        if not data or len(self._buffer) > MAX_REQUEST:
            self.close()
        elif not self._busy:
            self._next()

    def _next(self) -> None:
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if words[-1] not in {"HTTP/1.1", "HTTP/1.0"} or not length.isdigit():
            log("WARNING:  Invalid HTTP request received.")
            self._send(400, b"Invalid HTTP request received.", "text/plain; charset=utf-8", last=True)
        elif len(rest) >= int(length):
            self._buffer = rest[int(length) :]
            self._busy = True
            self.server.answer(Request(self, words[0], words[1], headers, rest[: int(length)]))

    def _send(self, status: int, body: bytes, kind: str, *, last: bool, bare: bool = False) -> None:
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\nserver: uvicorn\r\ncontent-length: {len(body)}\r\n"
        head += f"content-type: {kind}\r\n" if body and kind else ""
        head += "connection: close\r\n\r\n" if last else "\r\n"
        try:
            self.sock.sendall(head.encode() + (b"" if bare else body))
        except OSError:
            last = True
        if last:
            self.close()

    def reply(self, request: Request, status: int, body: bytes, kind: str) -> None:
        """Send an answer and take up the next request of this connection."""
        if self.server.access_log:
            log(f'INFO:     {self.peer} - "{request.method} {request.target} HTTP/1.1" {status} {REASONS[status]}')
        if self.sock.fileno() < 0:
            return
        self._busy = False
        last = request.headers.get("connection", "").lower() == "close"
        self._send(status, body, kind, last=last, bare=request.method == "HEAD")
        if self.sock.fileno() >= 0 and self._buffer:
            self._next()


class Server:
    """A listening port whose requests go to one function."""

    def __init__(
        self, loop: Loop, address: tuple[str, int], answer: Callable[[Request], None], *, access_log: bool
    ) -> None:
        """Listen.

        Raises:
            OSError: the port is taken or the address is not ours.
        """
        self.loop, self.answer, self.access_log = loop, answer, access_log
        self._listener = listen(*address)
        loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        Connection(self, sock, f"{peer[0]}:{peer[1]}")


class Asked:
    """A request for a completion; the text depends on the prompt alone.

    Raises:
        ValueError, TypeError, AttributeError: it makes no sense; the engine answers 400.
    """

    def __init__(self, request: Request, settings: Settings) -> None:
        """Read the request; each endpoint has its own names and default limit."""
        import json

        self.request = request
        asked = json.loads(request.body or b"null")
        sampling = asked
        if request.path == "/generate":
            sampling = asked.get("sampling_params") or {}
            limit = sampling.get("max_new_tokens", 128)
            prompt = asked.get("text") or asked.get("input_ids")
        elif request.path == "/v1/completions":
            limit, prompt = asked.get("max_tokens", 16), asked.get("prompt")
        else:
            limit = asked.get("max_completion_tokens") or asked.get("max_tokens", NATURAL_LENGTH)
            prompt = " ".join(str(message.get("content")) for message in asked.get("messages") or ())
        if not prompt:
            raise ValueError("Field required: the prompt")
        if int(limit) < 1:
            raise ValueError("max_tokens must be positive")
        self.prompt = prompt if isinstance(prompt, str) else " ".join(str(item) for item in prompt)
        self.limit = int(limit)
        self.count = self.limit if sampling.get("ignore_eos") else min(self.limit, NATURAL_LENGTH)
        self.stream = bool(asked.get("stream"))
        self.counts = bool((asked.get("stream_options") or {}).get("include_usage"))
        self.model = str(asked.get("model", settings.served))  # answered under the name it was asked for

    def answer(self) -> None:
        """Answer with everything at once, or as the events of a stream."""
        import json

        start = sum(self.prompt.encode())
        words = [" " + WORDS[(start + step) % len(WORDS)] for step in range(self.count)]
        finish = "length" if self.count == self.limit else "stop"
        shape = Shape(self.request.path, self.model, len(self.prompt.split()))
        if not self.stream:
            self.request.reply(200, json.dumps(shape.whole("".join(words), self.count, finish)).encode())
            return
        chunks = []
        for step in range(self.count + 1):  # those of /generate are cumulative
            cumulative = self.request.path == "/generate"
            text = "".join(words[: step + 1] if cumulative else words[step : step + 1])
            last = step == self.count
            chunks.append(shape.chunk(text, min(step + 1, self.count), finish if last else None, first=not step))
        if self.counts and self.request.path != "/generate":
            chunks.append(shape.count(self.count))
        lines = ["data: " + json.dumps(chunk) + "\n\n" for chunk in chunks]
        self.request.reply(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream; charset=utf-8")


class Shape:
    """The JSON of a completion, whole or in chunks, for one of the three endpoints, with the keys of the real one."""

    def __init__(self, path: str, model: str, prompt_tokens: int) -> None:
        """Keep what is in every form."""
        self.path, self.model, self.prompt_tokens = path, model, prompt_tokens

    @staticmethod
    def _weights(tokens: int) -> dict[str, Any]:
        versions = [{"version": "default", "start": 0, "end": tokens}]
        return {"weight_version": "default", "weight_versions": versions}

    def whole(self, text: str, tokens: int, finish: str) -> dict[str, Any]:
        """Give the answer to a request that wants no stream."""
        if self.path == "/generate":
            return self._native(text, tokens, finish)
        message = {"role": "assistant", "content": text, "reasoning_content": None}
        said = {"message": message} if self.path == "/v1/chat/completions" else {"text": text}
        whole = self._openai(said, finish, "chat.completion")
        return {**whole, "usage": self._usage(tokens), "metadata": self._weights(tokens)}

    def count(self, tokens: int) -> dict[str, Any]:
        """Give the last event of a stream that was asked to count (``include_usage``): no choice, only the usage."""
        counted = self._openai({}, None, "chat.completion.chunk")
        return {**counted, "choices": [], "usage": self._usage(tokens)}

    def _usage(self, tokens: int) -> dict[str, Any]:
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": tokens, "reasoning_tokens": 0}
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        return {**usage, "total_tokens": self.prompt_tokens + tokens, **details}

    def chunk(self, text: str, tokens: int, finish: str | None, *, first: bool) -> dict[str, Any]:
        """Give one event of a stream; ``finish`` is None for all but the last."""
        if self.path == "/generate":
            return self._native(text, tokens, finish)
        if self.path == "/v1/completions":
            return {**self._openai({"text": text}, finish, ""), "usage": None}
        delta = {"content": text, "reasoning_content": None, **({"role": "assistant"} if first else {})}
        return self._openai({"delta": delta}, finish, "chat.completion.chunk")

    def _native(self, text: str, tokens: int, finish: str | None) -> dict[str, Any]:
        meta: dict[str, Any] = {"id": "rehearsal", "prompt_tokens": self.prompt_tokens, "completion_tokens": tokens}
        meta.update({"cached_tokens": 0, "cached_tokens_details": None, "reasoning_tokens": 0, "num_retractions": 0})
        meta.update({"weight_version": "default", "dp_rank": None, "response_sent_to_client_ts": time.time()})
        meta["finish_reason"] = finish and {"type": finish, "length": tokens}
        if finish:
            meta.update({**self._weights(tokens), "e2e_latency": 0.01})
        return {"text": text, "output_ids": list(range(tokens)), "meta_info": meta}

    def _openai(self, said: dict[str, Any], finish: str | None, kind: str) -> dict[str, Any]:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        kind = kind if self.path == "/v1/chat/completions" else "text_completion"
        about = {"id": "rehearsal", "object": kind, "created": int(time.time()), "model": self.model}
        return {**about, "choices": [choice]}


def complaint(path: str, what: str) -> bytes:
    """Give the body of a 400 as the endpoint words it."""
    import json

    if path == "/generate":
        return json.dumps({"error": {"message": what}}).encode()
    told = {"object": "error", "message": what, "type": "Bad Request", "param": None, "code": 400}
    return json.dumps(told).encode()


# ------------------------------------------------------------------------------------------------- main


class Child:
    """A forked process and the line to it."""

    def __init__(self, name: str, pid: int, wire: Wire) -> None:
        """Keep them together."""
        self.name, self.pid, self.wire = name, pid, wire
        self.code: int | None = None
        self.ready = False

    def reap(self) -> int:
        """Wait for its end and give the exit code as Python's multiprocessing does (a signal is negative)."""
        while not self.has_ended(0):
            pass
        return self.code or 0

    def has_ended(self, options: int = os.WNOHANG) -> bool:
        """Tell whether it has ended, and keep its exit code then."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.code is not None


class Engine:
    """The main process."""

    def __init__(self, settings: Settings, faults: Faults) -> None:
        """Nothing happens before ``run``."""
        self.settings, self.faults = settings, faults
        self.loop = Loop()
        self.modes: set[str] = set()  # faults that change how main answers
        self.schedulers: list[Child] = []
        self.detokenizer: Child | None = None
        self.waiting: dict[str, Callable[[], None]] = {}
        self.asked = 0
        self.state = "loading"  # loading, warming, up, draining
        self.well = True  # what the last health check found
        self.busy = 0  # completions that are not answered yet
        self.heard = time.time()

    # -- life

    def run(self) -> NoReturn:
        """Start everything and serve until something ends it."""
        settings = self.settings
        emit(BANNER)
        for mode, value in self.faults.due("start"):
            self.fail(mode, value)
        self.loop.wait(lambda: False, 0.1 / SPEED)
        log("server_args={" + settings.described()[1:])
        gc.freeze()  # what exists now stays shared with the children
        if not settings.http_only:
            self._fork_children()
        if settings.leader:
            log("Using default HuggingFace chat template with detected content format: string")
        if settings.leader and settings.mode == "prefill":
            self._open_bootstrap()  # after the forks: an orphan must not hold the port
        control = os.environ.get("SGDEPLOY_REHEARSE_CONTROL")
        if control:
            self._obey(f"{control}/{settings.node_rank}-{settings.rank_in_node}")
        self.loop.wait(lambda: all(child.ready for child in self.schedulers))
        self._handle_signals()
        if settings.leader and not settings.skip_http:
            self._open_http()
        elif not settings.leader:
            self._open_dummy()
        while True:
            self.loop.turn()

    def _fork_children(self) -> None:
        settings = self.settings
        meeting = None
        if settings.rendezvous is None and settings.world > 1:  # a lone node finds itself a port, as the engine does
            meeting = listen("127.0.0.1", 0)
            settings.rendezvous = meeting.getsockname()[:2]
        parent = os.getpid()
        for rank in settings.local_ranks:

            def live(sock: socket.socket, rank: int = rank) -> NoReturn:
                if rank and meeting is not None:
                    meeting.close()
                Scheduler(settings, self.faults, rank, sock, meeting).run(parent)

            self.schedulers.append(self._fork(f"scheduler_{len(self.schedulers)}", live))
        if meeting is not None:
            meeting.close()
        if settings.leader:
            self.detokenizer = self._fork("detokenizer", lambda sock: detokenize(sock, parent))

    def _fork(self, name: str, live: Callable[[socket.socket], NoReturn]) -> Child:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for child in self.schedulers:
                child.wire.sock.close()
            live(theirs)
        theirs.close()
        return Child(name, pid, Wire(self.loop, ours, self._from_child, self._child_ended))

    def _children(self) -> list[Child]:
        return self.schedulers + ([] if self.detokenizer is None else [self.detokenizer])

    def _child_of(self, wire: Wire) -> Child:
        return next(child for child in self._children() if child.wire is wire)

    def _from_child(self, wire: Wire, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "ready":
            self._child_of(wire).ready = True
        elif word == "done":
            self.heard = time.time()
            call = self.waiting.pop(rest, None)
            if call is not None:
                call()
        elif word == "quit":
            self.crash()
        elif word == "fail":
            mode, _, value = rest.partition(" ")
            self.fail(mode, value)

    def _child_ended(self, wire: Wire) -> None:
        child = self._child_of(wire)
        code = child.reap()
        if self.state == "draining" or "green-but-dead" in self.modes:
            return
        if self.state == "loading" and not child.ready and child is not self.detokenizer:
            self._died_loading(child, code)
        elif self.settings.leader and code != 0:
            log(
                f"Subprocess {child.name} (pid={child.pid}) crashed with exit code {code}. "
                "Triggering SIGQUIT for cleanup..."
            )
            self.crash()
        elif not self.settings.leader and all(each.code is not None for each in self.schedulers):
            for each in self.schedulers:
                log(f"Scheduler or DataParallelController {each.pid} terminated with {each.code}")
            self._kill_tree(itself=False)
            time.sleep(0.3 / SPEED)  # the real one is long about it, and its health port says nothing any more
            os._exit(0)

    def _died_loading(self, child: Child, code: int) -> NoReturn:
        self._kill_tree(itself=False)
        emit(
            MAIN_FRAMES
            + f"\nRuntimeError: Rank {self.schedulers.index(child)} scheduler died during initialization (exit code: "
            f"{code}). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. "
            "Run `dmesg -T | grep -i oom` to check."
        )
        os._exit(1)

    # -- ends

    def _kill_tree(self, *, itself: bool, quiet: bool = False) -> None:
        if not quiet:
            pid = os.getpid()
            log(f"kill_process_tree called: parent_pid={pid}, include_parent={itself}, pid={pid}")
        for child in self._children():
            if child.code is None:
                os.kill(child.pid, signal.SIGKILL)
                child.reap()
        if itself:
            os.kill(os.getpid(), signal.SIGKILL)

    def crash(self) -> None:
        """Go down as the real one does after SIGQUIT: at once before it serves, after 5 s without answers then."""
        if self.state == "draining":
            return
        if self.state == "loading" or not self.settings.leader:
            log("Received sigquit from a child process. It usually means the child failed.")
        else:
            log("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
            log("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
            time.sleep(5.0 / SPEED)  # the loop stands still: no HTTP answers meanwhile
            log("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        self._kill_tree(itself=True)

    def _handle_signals(self) -> None:
        # until here SIGTERM had its default action: main dies at once, and nobody waits for its children
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, lambda *_: None)

        def wake() -> None:
            for number in os.read(reader, 64):
                if number == signal.SIGQUIT:
                    self.crash()
                elif self.settings.leader:
                    self._drain()
                else:
                    log("SIGTERM received on a non-zero rank; waiting for the rank-0 ShutdownReq broadcast")

        self.loop.watch(reader, wake)

    def _drain(self) -> None:
        if self.state == "draining":
            return
        self.state = "draining"
        log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self.loop.after(1.2 / SPEED, self._leave)

    def _leave(self) -> None:
        """Leave once nothing is asked any more; the real one looks every five seconds."""
        if self.well:
            log(
                f"Gracefully exiting... Remaining number of requests {self.busy}. "
                f"Remaining requests remaining_rids={['rehearsal'] * self.busy}."
            )
        else:
            log("Signal SIGTERM received while health check failed. Force exiting.")
        if self.busy and self.well:
            self.loop.after(1.2 / SPEED, self._leave)
            return
        for child in self.schedulers:
            child.wire.send("shutdown")
        self._stand_still(2.0)
        self._kill_tree(itself=False)
        log("INFO:     Shutting down")
        self._goodbye()
        log(f"INFO:     Finished server process [{os.getpid()}]")
        self._kill_tree(itself=False)
        os._exit(0)

    def _stand_still(self, limit: float) -> None:
        """Wait for the schedulers; nobody gets an answer meanwhile, and whoever asks now is cut off in the end."""
        until = time.monotonic() + limit
        while time.monotonic() < until and not all(child.has_ended() for child in self.schedulers):
            time.sleep(0.01)
        time.sleep(0.6 / SPEED)

    @staticmethod
    def _goodbye() -> None:
        log("INFO:     Waiting for application shutdown.")
        log("INFO:     Application shutdown complete.")

    # -- faults

    def fail(self, mode: str, value: str) -> None:
        """Fail in one of the ways that main takes part in; the others belong to the schedulers."""
        if mode == "die":
            self._kill_tree(itself=True, quiet=True)
        elif mode == "exit":
            emit(MAIN_FRAMES + f"\nRuntimeError: rehearsed failure, exit code {value or 1}")
            self._kill_tree(itself=False)
            os._exit(int(value or "1"))
        elif mode == "unknown-flag":
            refuse("unrecognized arguments: " + (value or "--attention-backnd torch_native"))
        elif mode == "escape":
            self._escape()
        elif mode in MAIN_FAULTS:
            self.modes.add(mode)

    def _escape(self) -> None:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.closerange(3, 1024)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        retitle("sglang::escaped")
        while True:
            signal.pause()

    def _obey(self, path: str) -> None:
        """Look for the control file and do what it says; it is removed as the sign that it was read."""
        self.loop.after(0.25, lambda: self._obey(path))
        try:
            text = read_file(path)
        except OSError:
            return
        from pathlib import Path

        Path(path).unlink()
        for mode, value, _, _ in Faults(text, self.settings).items:
            if mode in MAIN_FAULTS and mode != "green-but-dead":
                self.fail(mode, value)
            else:
                for child in self.schedulers:
                    child.wire.send(f"fail {mode} {value}")

    # -- HTTP

    def _ask(self, call: Callable[[], None]) -> str:
        """Let rank 0 go one round through all ranks, then call back; never, if one of them does not answer."""
        if not self.schedulers:
            self.loop.after(0, call)
            return ""
        self.asked += 1
        number = str(self.asked)
        self.waiting[number] = call
        self.schedulers[0].wire.send("ask " + number)
        return number

    def _serve(self, where: tuple[str, int], answer: Callable[[Request], None], *, access_log: bool) -> None:
        if "port-taken" in self.modes:
            raise OSError
        Server(self.loop, where, answer, access_log=access_log)

    def _open_bootstrap(self) -> None:
        where = (self.settings.host, self.settings.bootstrap_port)

        def answer(request: Request) -> None:
            request.reply(200 if request.path == "/health" else 404, b"OK", "text/plain")

        try:
            Server(self.loop, where, answer, access_log=False)
            log("CommonKVBootstrapServer started successfully on {}:{}".format(*where))
        except OSError as error:
            log(f"Server error: [Errno {error.errno}] error while attempting to bind on address {where}")

    def _open_dummy(self) -> None:
        where = (self.settings.host, self.settings.port)

        def answer(request: Request) -> None:
            if request.path not in {"/ping", *HEALTHS, *(["/metrics"] if self.settings.metrics else [])}:
                request.reply(404, NOT_FOUND)
            elif request.method != "GET":
                request.reply(405, NOT_ALLOWED)
            else:
                request.reply(200)

        log("Dummy health check server started in background thread at {}:{}".format(*where))
        try:
            self._serve(where, answer, access_log=False)
        except OSError:  # only the real one's thread dies of it: the rank goes on without a health port
            log(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
            log("Dummy health check server stopped at {}:{}".format(*where))

    def _open_http(self) -> None:
        log("Engine startup timings (s): load_weight=0.30, kv_cache_allocation=0.10, scheduler_e2e=0.50")
        log(f"INFO:     Started server process [{os.getpid()}]")
        log("INFO:     Waiting for application startup.")
        log("INFO:     Application startup complete.")
        where = (self.settings.host, self.settings.port)
        try:
            self._serve(where, self.answer, access_log=True)
        except OSError:
            self._port_is_taken(where)
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        log(f"INFO:     Uvicorn running on http://{shown}:{where[1]} (Press CTRL+C to quit)")
        self.state = "warming"
        if self.settings.skip_warmup or self.settings.http_only:
            self._ready()
        else:
            self.loop.after(0.4 / SPEED, self._warm_up)

    def _warm_up(self) -> None:
        split = self.settings.mode in {"prefill", "decode"}
        if split:
            log("Start of pd disaggregation warmup ...")

        def done() -> None:
            log('INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK')
            if split:
                log("Disaggregation warmup requests completed for all 1 DP ranks")
                log("End of disaggregation warmup")
            log('INFO:     127.0.0.1:1 - "POST /freeze_gc HTTP/1.1" 200 OK')
            self._ready()

        self._ask(done)

    def _ready(self) -> None:
        if self.state == "warming":
            self.state = "up"
        log("The server is fired up and ready to roll!")

    def _port_is_taken(self, where: tuple[str, int]) -> NoReturn:
        """Do as the real one does: the warm-up goes to whoever holds the port; then leave with 3."""
        log(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
        self._goodbye()
        until = time.monotonic() + 120.0 / SPEED
        while "port-taken" not in self.modes and time.monotonic() < until:
            if somebody_answers(where):
                log("The server is fired up and ready to roll!")
                break
            self.loop.wait(lambda: False, 0.5 / SPEED)
        self._kill_tree(itself=False)
        os._exit(3)

    def answer(self, request: Request) -> None:
        """Answer one request to the leader."""
        path, key = request.path, self.settings.api_key
        methods = METHODS.get(path, ("GET",) if path.startswith("/v1/models/") else ())
        locked = key and request.headers.get("authorization") != "Bearer " + key
        if "401" in self.modes or (locked and not path.startswith(OPENED)):
            request.reply(401, b'{"error":"Unauthorized"}')
        elif path == "/metrics" and self.settings.metrics:
            name, tokens = self.settings.served, self.settings.kv_tokens
            text = f'sglang:max_total_num_tokens{{model_name="{name}"}} {tokens}\n'
            request.reply(200, text.encode(), "text/plain; version=0.0.4")
        elif not methods:
            request.reply(404, NOT_FOUND)
        elif request.method not in methods:
            request.reply(405, NOT_ALLOWED)
        elif path in COMPLETIONS:
            self._complete(request)
        elif path in HEALTHS:
            self._health(request)
        elif path in FLAGS:
            request.reply(200 if self.state == "up" and self.well else 503)
        elif path in OPERATIONS:
            request.reply(200, b"Done.\n", "")
        else:
            self._info(request)

    def _complete(self, request: Request) -> None:
        try:
            asked = Asked(request, self.settings)
        except (ValueError, TypeError, AttributeError) as error:
            request.reply(400, complaint(request.path, str(error)))
            return
        asked.count = 0 if "no-tokens" in self.modes else asked.count
        self.busy += 1

        def done() -> None:
            self.busy -= 1
            asked.answer()

        self._ask(lambda: self.loop.after(asked.count * DECODE_SECONDS, done))

    def _health(self, request: Request) -> None:
        if self.state == "draining":
            log("Health check request received during shutdown. Returning 503.")
        if self.state != "up":
            request.reply(503)
            return
        began = time.time()
        number = self._ask(lambda: None)

        def look(again: float) -> None:
            if number not in self.waiting:
                self.well = True
                request.reply(200)
            elif time.time() - began < HEALTH_LIMIT:
                self.loop.after(again, lambda: look(again))
            else:
                del self.waiting[number]
                self.well = False
                log(
                    "Health check failed. Server couldn't get a response from detokenizer for last "
                    f"{HEALTH_LIMIT:g} seconds. tic start time: {clock(began)}. "
                    f"last_heartbeat time: {clock(self.heard)}"
                )
                request.reply(503)

        self.loop.after(HEALTH_SECONDS, lambda: look(min(1.0, HEALTH_LIMIT)))

    def _info(self, request: Request) -> None:
        import json

        path, settings = request.path, self.settings
        if path.startswith("/get_"):
            path = "/" + path[len("/get_") :]
            log(
                f"Endpoint '{request.path}' is deprecated and will be removed in a future version. "
                f"Please use '{path}' instead."
            )
        model = path[len("/v1/models/") :]
        if model and path.startswith("/v1/models/") and model != settings.served:
            said = {"message": f"The model '{model}' does not exist", "type": "invalid_request_error"}
            body = {"error": {**said, "param": "model", "code": "model_not_found"}}
            request.reply(404, json.dumps(body).encode())
        else:
            request.reply(200, json.dumps(about(path, settings)).encode())


def about(path: str, settings: Settings) -> object:
    """Give what one of the information endpoints says."""
    named: dict[str, Any] = {"model_path": settings.model, "served_model_name": settings.served}
    named["disaggregation_mode"] = settings.mode
    if path == "/":
        return "SGLang is running"
    if path == "/model_info":
        named.update({"tokenizer_path": settings.model, "is_generation": True, "weight_version": "default"})
        return {**named, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    if path == "/server_info":
        named.update({"version": "0.5.23", "tp_size": settings.tp, "dp_size": settings.dp, "pp_size": settings.pp})
        return {**named, "max_total_num_tokens": settings.kv_tokens, "status": "ready", "internal_states": [{}]}
    card: dict[str, Any] = {"id": settings.served, "object": "model", "created": int(time.time())}
    card.update({"owned_by": "sglang", "root": settings.served, "parent": None, "max_model_len": 16384})
    return {"object": "list", "data": [card]} if path == "/v1/models" else card


def clock(seconds: float) -> str:
    """Give a time of day as the engine's health line has it."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def detokenize(sock: socket.socket, main: int) -> NoReturn:
    """Be the detokenizer: ends with main, or never, where main ended before it could notice."""
    orphan = not import_everything(main)
    retitle("sglang::detokenizer")
    if not orphan:
        while sock.recv(64):
            pass
        os._exit(0)
    while True:
        signal.pause()


def somebody_answers(where: tuple[str, int]) -> bool:
    """Tell whether whoever holds the port answers /model_info with 200."""
    try:
        with connect(*where, 5.0) as sock:
            sock.sendall(b"GET /model_info HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return b" 200 " in sock.recv(64)
    except OSError:
        return False


def refuse(reason: str) -> NoReturn:
    """End as the engine's parser does: usage, the reason in the last line, exit code 2."""
    emit("usage: sglang serve [-h] --model-path MODEL_PATH [--host HOST] [--port PORT] [--config CONFIG] …")
    emit("sglang serve: error: " + reason)
    os._exit(2)


def main(words: list[str]) -> NoReturn:
    """Run one process of the simulated engine."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        settings = Settings(words)
        faults = Faults(os.environ.get("SGDEPLOY_REHEARSE_FAIL", ""), settings)
    except UsageError as error:
        refuse(str(error))
    Engine(settings, faults).run()


if __name__ == "__main__":
    main(sys.argv[1:])
