"""The main process: its children, its signals, and every way in which it ends."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time

from .basics import SPEED, emit, log, read_file
from .faults import MAIN_FAULTS, Faults
from .front import Front, goodbye
from .loop import Loop, Wire
from .processes import Child, detokenize, escape
from .scheduler import Scheduler
from .settings import refuse
from .sockets import listen

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from .settings import Settings


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


class Engine:
    """The main process."""

    def __init__(self, settings: Settings, faults: Faults) -> None:
        """Nothing happens before ``run``."""
        self.settings, self.faults = settings, faults
        self.loop = Loop()
        self.modes: set[str] = set()  # faults that change how main answers
        self.schedulers: list[Child] = []
        self.detokenizer: Child | None = None
        self.state = "loading"  # loading, warming, up, draining
        self.front = Front(self)

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
            self.front.open_bootstrap()  # after the forks: an orphan must not hold the port
        control = os.environ.get("SGDEPLOY_REHEARSE_CONTROL")
        if control:
            self._obey(f"{control}/{settings.node_rank}-{settings.rank_in_node}")
        self.loop.wait(lambda: all(child.ready for child in self.schedulers))
        self._handle_signals()
        if settings.leader and not settings.skip_http:
            self.front.open_http()
        elif not settings.leader:
            self.front.open_dummy()
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
            self.front.settled(rest)
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
            self.kill_tree(itself=False)
            time.sleep(0.3 / SPEED)  # the real one is long about it, and its health port says nothing any more
            os._exit(0)

    def _died_loading(self, child: Child, code: int) -> NoReturn:
        self.kill_tree(itself=False)
        emit(
            MAIN_FRAMES
            + f"\nRuntimeError: Rank {self.schedulers.index(child)} scheduler died during initialization (exit code: "
            f"{code}). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. "
            "Run `dmesg -T | grep -i oom` to check."
        )
        os._exit(1)

    # -- ends

    def kill_tree(self, *, itself: bool, quiet: bool = False) -> None:
        """Kill the children and, where it is asked for, this process."""
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
        self.kill_tree(itself=True)

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
        if self.front.well:
            log(
                f"Gracefully exiting... Remaining number of requests {self.front.busy}. "
                f"Remaining requests remaining_rids={['rehearsal'] * self.front.busy}."
            )
        else:
            log("Signal SIGTERM received while health check failed. Force exiting.")
        if self.front.busy and self.front.well:
            self.loop.after(1.2 / SPEED, self._leave)
            return
        for child in self.schedulers:
            child.wire.send("shutdown")
        self._stand_still(2.0)
        self.kill_tree(itself=False)
        log("INFO:     Shutting down")
        goodbye()
        log(f"INFO:     Finished server process [{os.getpid()}]")
        self.kill_tree(itself=False)
        os._exit(0)

    def _stand_still(self, limit: float) -> None:
        """Wait for the schedulers; nobody gets an answer meanwhile, and whoever asks now is cut off in the end."""
        until = time.monotonic() + limit
        while time.monotonic() < until and not all(child.has_ended() for child in self.schedulers):
            time.sleep(0.01)
        time.sleep(0.6 / SPEED)

    # -- faults

    def fail(self, mode: str, value: str) -> None:
        """Fail in one of the ways that main takes part in; the others belong to the schedulers."""
        if mode == "die":
            self.kill_tree(itself=True, quiet=True)
        elif mode == "exit":
            emit(MAIN_FRAMES + f"\nRuntimeError: rehearsed failure, exit code {value or 1}")
            self.kill_tree(itself=False)
            os._exit(int(value or "1"))
        elif mode == "unknown-flag":
            refuse("unrecognized arguments: " + (value or "--attention-backnd torch_native"))
        elif mode == "escape":
            escape()
        elif mode in MAIN_FAULTS:
            self.modes.add(mode)

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
