"""A scheduler: one rank, which meets the others, loads, and answers rank 0's rounds."""

from __future__ import annotations

import os
import signal
import time

from .basics import SPEED, emit, log
from .faults import MAIN_FAULTS, PHASES, CrashError
from .loop import Loop, Wire
from .processes import import_everything, retitle
from .sockets import connect, listen

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from typing import NoReturn

    from .faults import Faults
    from .settings import Settings


SCHEDULER_FRAMES = """\
Scheduler hit an exception: Traceback (most recent call last):
  File "/engine/sglang/srt/managers/scheduler.py", line 6368, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)"""


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
