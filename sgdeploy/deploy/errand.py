"""A program of ours run once on every host of a fleet, under the keeper: started, heard, stopped, put away.

It outlives the loss of the connection, as ranks do, and is on record on the host like them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sgdeploy.deploy.fleet import Answers, Fleet
from sgdeploy.deploy.launch import START_SILENCE, new_launch_id
from sgdeploy.deploy.options import Owner
from sgdeploy.deploy.prepare import require
from sgdeploy.errors import HostFault, RemoteError
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Json, LostHostError, NodeError, NodeSession
from sgdeploy.remote.waits import to_the_end, together
from sgdeploy.render.quote import word
from sgdeploy.words import plural

SILENCE = 10.0
"""A node sends a heartbeat every 2 s; five of them missing is a lost host."""

PATIENCE = 60.0
"""Seconds that a program may take to end in an orderly way once it was told to."""

SLACK = 15.0

_SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
# The run folder is the one above this script.
script=${BASH_SOURCE[0]}
[[ $script == */* ]] || script=./$script
CDPATH='' cd -- "${script%/*}/.."
exec """

Hear = Callable[[str, str], None]
"""Hears host and last line of the program's output, about once a second."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: exit code or signal, and its last lines."""

    code: int | None
    signal: int | None
    tail: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in words."""
        return f"killed by signal {self.signal}" if self.code is None else f"exit code {self.code}"


@dataclass(frozen=True)
class Errand:
    """Programs on the hosts of one fleet, all in one launch.

    Attributes:
        fleet: open sessions; the run folder of each host is that of the errand.
        name: of the deployment.
        digest: of its plan.
        owner: who runs it.
        id: of the launch.
    """

    fleet: Fleet
    name: str
    digest: str
    owner: Owner
    id: str = field(default_factory=new_launch_id)

    async def clean(self) -> None:
        """Stop what an earlier errand left running, and put its records away.

        Raises:
            PreflightError, RemoteError: a host refused, or was lost.
        """
        await self._stop()
        require(await self.fleet.ask("clear", _folder, limit=PATIENCE), "putting an earlier run away")

    async def run(
        self,
        stage: str,
        files: Callable[[PlanHost], Mapping[str, bytes]],
        words: Sequence[str],
        writes: Sequence[str],
        hear: Hear,
    ) -> dict[str, Ended]:
        """Run a program on every host and wait until all have ended; a cancellation ends them in an orderly way.

        Args:
            stage: what it does, a short name.
            files: name → content of what it needs in the run folder.
            words: its command; relative names are in the run folder.
            writes: names of files that it may write there, so that they are put away with the rest.
            hear: hears its lines.

        Raises:
            PreflightError: a host refused.
            RemoteError: hosts were lost; what runs there goes on.
        """
        pushed = await self.fleet.ask(
            "prepare", lambda host: self._parcel(stage, files(host), words, writes, host), limit=PATIENCE
        )
        require(pushed, "writing the program")
        ended: dict[str, Ended] = {}
        faults: list[HostFault] = []

        async def one(name: str, session: NodeSession) -> None:
            try:
                ended[name] = await self._follow(stage, name, session, hear)
            except (NodeError, LostHostError) as error:
                faults.append(error.fault)

        try:
            await together(*(one(name, session) for name, session in self.fleet.sessions.items()))
        except BaseException:
            await to_the_end(self._stop())
            raise
        if faults:
            hint = "where it was running it goes on without us; the same command, later, finds what it has done"
            raise RemoteError(f"{plural(len(faults), 'host')} could not be followed", faults, hint=hint)
        return ended

    def _parcel(
        self,
        stage: str,
        files: Mapping[str, bytes],
        words: Sequence[str],
        writes: Sequence[str],
        host: PlanHost,
    ) -> Json:
        content = [
            {"path": name, "mode": "0600", "base64": base64.b64encode(body).decode()}
            for name, body in {**dict.fromkeys(writes, b""), **files}.items()
        ]
        script = _SCRIPT + " ".join(map(word, words)) + "\n"
        plan = {"name": self.name, "errand": stage, "digest": self.digest}
        return {"run_dir": host.run_dir, "plan": plan, "scripts": {stage: script}, "files": content}

    async def _follow(self, stage: str, name: str, session: NodeSession, hear: Hear) -> Ended:
        host = session.host
        ident = f"{self.name}/{stage}/{name}"
        head = {"id": self.id, "deployment": self.name, "host": name, "digest": self.digest}
        process = {"id": ident, "key": stage, "log": f"{stage}.log", "hugepages": [], "secrets": {}}
        arguments = {
            "run_dir": host.run_dir,
            "launch": {**head, "owner": self.owner.to_json()},
            "sysfs_root": "",
            "modules": [],
            "hugepages": [],
            "processes": [{**process, "secret_file": None}],
        }
        async for _ in session.stream("start", arguments, silence=START_SILENCE):
            pass
        watch = {"run_dir": host.run_dir, "ids": [ident], "milestones": {}, "http": {}, "interval": 0.2}
        async for event in session.stream("watch", watch, silence=SILENCE):
            for seen in event.get("observations", ()):
                if seen["line"]:
                    hear(name, seen["line"])
                if not seen["alive"]:
                    end = seen["exit"] or {}
                    return Ended(end.get("code"), end.get("signal"), tuple(seen["tail"] or ()))
        raise LostHostError(name, "its node helper stopped watching")

    async def _stop(self) -> None:
        """Tell what runs to end, and wait until it has."""
        await self.fleet.ask("signal", lambda host: {**_folder(host), "ids": None, "scope": "main", "signal": "TERM"})
        limits = {"ids": None, "scope": "tree", "timeout": PATIENCE}
        await self.fleet.ask("await_gone", lambda host: {**_folder(host), **limits}, limit=PATIENCE + SLACK)

    async def fetch(self, *names: str) -> dict[str, dict[str, str]]:
        """Read text files of the run folders; gives host → path → text, paths as globs found them.

        Raises:
            PreflightError, RemoteError: a host refused, or was lost.
        """
        answers: Answers = await self.fleet.ask(
            "gather", lambda host: {"files": [f"{self._real(host)}/{name}" for name in names]}, limit=PATIENCE
        )
        require(answers, "reading the results")
        return {name: result["files"] for name, result in answers.results.items()}

    def _real(self, host: PlanHost) -> str:
        """Give the run folder without "~", which only operations on run folders understand."""
        home = str(self.fleet.sessions[host.host].hello.get("home") or "~")
        return home + host.run_dir[1:] if host.run_dir.startswith("~") else host.run_dir


def _folder(host: PlanHost) -> Json:
    return {"run_dir": host.run_dir}
