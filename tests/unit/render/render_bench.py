"""Runs rendered scripts in a real bash and reads what a stand-in program received, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sgdeploy.plan.model import Process
from sgdeploy.render.layout import script_key
from sgdeploy.render.scripts import process_script
from tests.unit.render.render_plans import plan_of

LIMIT = 60.0
"""Seconds that one script may take before the test fails; it needs a small part of one."""

_PROGRAM = """
import os, sys
with open(sys.argv[1], "wb") as out:
    for name in ("cmdline", "environ", "status"):
        with open("/proc/self/" + name, "rb") as source:
            out.write(source.read() + b"\\0END\\0")
    out.write(os.getcwdb() + b"\\0END\\0" + str(os.getpid()).encode())
"""


@dataclass(frozen=True)
class Seen:
    """What the stand-in program saw.

    Attributes:
        argv: its own arguments, without interpreter and bookkeeping.
        environ: name → value.
        cwd: where it ran.
        pid: which process it was.
        cores: list of cores it may use, as the kernel writes it.
    """

    argv: list[bytes]
    environ: dict[bytes, bytes]
    cwd: bytes
    pid: int
    cores: str


@dataclass(frozen=True)
class Ran:
    """How a script ended, and what the stand-in saw if it came to run."""

    code: int
    err: str
    pid: int
    seen: Seen | None


@dataclass(frozen=True)
class Bench:
    """One run folder with a stand-in program beside it."""

    run_dir: Path
    out: Path

    @classmethod
    def at(cls, tmp_path: Path, name: str = "run") -> Bench:
        """Make the folders."""
        run_dir = tmp_path / name
        (run_dir / "scripts").mkdir(parents=True)
        return cls(run_dir, tmp_path / "seen")

    @property
    def standin(self) -> tuple[str, ...]:
        """The command line of the stand-in; arguments follow."""
        return (sys.executable, "-I", "-S", "-c", _PROGRAM, str(self.out))

    def write(self, process: Process) -> Path:
        """Put the script of a process where it belongs."""
        script = self.run_dir / "scripts" / f"{script_key(process)}.sh"
        script.write_text(process_script(plan_of(process), process), encoding="utf-8")
        return script

    def run(
        self, process: Process, environ: dict[str, str] | None = None, call: str | None = None, cwd: Path | None = None
    ) -> Ran:
        """Render a process, run its script and read what the stand-in saw."""
        script = self.write(process)
        self.out.unlink(missing_ok=True)
        with subprocess.Popen(
            ["bash", call or str(script)],
            env={"PATH": os.environ["PATH"], "HOME": str(self.run_dir), **(environ or {})},
            cwd=cwd or "/",
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as child:
            try:
                _, err = child.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
        return Ran(child.returncode, err.decode(errors="replace"), child.pid, self._seen())

    def _seen(self) -> Seen | None:
        if not self.out.exists():
            return None
        argv, environ, status, cwd, pid = self.out.read_bytes().split(b"\0END\0")
        cores = next(line for line in status.decode().splitlines() if line.startswith("Cpus_allowed_list:"))
        return Seen(
            argv=argv.removesuffix(b"\0").split(b"\0")[len(self.standin) :],
            environ=dict(_pair(entry) for entry in environ.split(b"\0") if entry),
            cwd=cwd,
            pid=int(pid),
            cores=cores.split()[1],
        )


def _pair(entry: bytes) -> tuple[bytes, bytes]:
    name, _, value = entry.partition(b"=")
    return name, value
