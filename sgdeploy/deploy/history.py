"""What was done to a deployment and by whom, and the plans that were ready: kept on the host of its first leader.

The audit log of that host is the list: a line for each action, with who and when. A plan that became ready is kept in
a run folder of its own below, ``plans/<begin of its digest>``, which holds ``plan.json`` and nothing else, so that
another machine can go back to it, also after ``down``. A plan holds the names of secrets and never their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet, Refusal
from sgdeploy.deploy.options import Owner
from sgdeploy.deploy.replan import Replan
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.words import plural

KEPT = 10
"""So many plans that were ready are kept."""

READ = 256 * 1024
"""Bytes at the end of an audit log that are read: some thousand actions."""

SHOWN = 16
"""Hexadecimal digits of a digest that tell plans of one deployment apart."""

_LINE = re.compile(r"(?P<when>\S+Z) (?P<who>\S+@\S+ \(pid \d+\)): (?P<what>.*)")
_PLAN = re.compile(r"\bplan (?P<digest>[0-9a-f]{16})\b")


def short(digest: str) -> str:
    """Give the begin of a digest, by which a plan is called."""
    return digest.removeprefix("sha256:")[:SHOWN]


@dataclass(frozen=True)
class Entry:
    """One action.

    Attributes:
        when: by the clock of the host, UTC: ``2026-11-29T17:18:32Z``.
        who: ``user@host (pid 123)``, of the controller.
        what: in words.
    """

    when: str
    who: str
    what: str

    @property
    def plan(self) -> str | None:
        """The begin of the digest of the plan that it is about, where one is named."""
        found = _PLAN.search(self.what)
        return None if found is None else found["digest"]

    @property
    def ready(self) -> bool:
        """Whether a plan was proven to serve."""
        return self.what.endswith("is ready") and self.plan is not None

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return {"time": self.when, "who": self.who, "what": self.what, "plan": self.plan, "ready": self.ready}


def entries(text: str) -> tuple[Entry, ...]:
    """Read an audit log; a first line that is cut, and whatever is no line of ours, is passed over."""
    found = map(_LINE.fullmatch, text.splitlines())
    return tuple(Entry(line["when"], line["who"], line["what"]) for line in found if line is not None)


def once_ready(found: Iterable[Entry]) -> list[str]:
    """Give the plans that were ready by the begin of their digests, the one that was so last on top."""
    ready = [entry.plan for entry in found if entry.ready and entry.plan is not None]
    return list(dict.fromkeys(reversed(ready)))


@dataclass(frozen=True)
class History:
    """The history of a deployment on one host.

    Attributes:
        fleet: open hosts; a host that is not among them has no history.
        host: of the first leader.
    """

    fleet: Fleet
    host: PlanHost

    async def note(self, owner: Owner, what: str, also: Iterable[str] = ()) -> None:
        """Append a line, on other hosts too; a disk that is full keeps nobody from working."""
        hosts = dict.fromkeys([self.host.host, *also])
        line = {"who": str(owner), "what": what}
        await self.fleet.ask("audit", lambda host: {"run_dir": host.run_dir, **line}, hosts=hosts)

    async def read(self) -> tuple[Entry, ...]:
        """Give what is on record, oldest first."""
        command = ["tail", "-c", str(READ), f"{self._folder()}/audit.log"]
        answer = await self._ask("gather", {"commands": {"tail": command}})
        if not isinstance(answer, dict):
            return ()
        return entries(answer["commands"].get("tail", {}).get("out", ""))

    async def ready(self, plan: Plan, owner: Owner, verb: str, tell: Tell) -> None:
        """Keep a plan that has been proven to serve, once; the oldest beyond ``KEPT`` go."""
        found = await self.read()
        if found and found[-1].ready and found[-1].plan == short(plan.digest):
            return
        body = {"plan": plan.to_json(), "scripts": {}, "files": []}
        kept = await self._ask("prepare", {**body, "run_dir": self._place(short(plan.digest))})
        if not isinstance(kept, dict):
            what = f"the plan cannot be kept for `sgdeploy rollback`: {kept.fault.reason if kept else 'no such host'}"
            tell(Note(what, "warning", (self.host.host,)))
            return
        await self.note(owner, f"{verb}: plan {short(plan.digest)} is ready")
        gone = [each for each in once_ready(found) if each != short(plan.digest)][KEPT - 1 :]
        for digest in gone[:KEPT]:
            await self._ask("clear", {"run_dir": self._place(digest)})

    async def plan(self, digest: str) -> Plan | None:
        """Give a plan that was kept, by the begin of its digest; None where that one cannot be read there."""
        answer = await self._ask("records", {"run_dir": self._place(digest)})
        body = answer.get("plan") if isinstance(answer, dict) else None
        try:
            found = None if body is None else Plan.from_json(body)
        except (ValueError, TypeError):
            return None
        return found if found is not None and short(found.digest) == digest else None

    def _place(self, digest: str) -> str:
        return f"{self.host.run_dir}/plans/{digest}"

    def _folder(self) -> str:
        """Give the run folder without "~", which only operations on run folders understand."""
        home = str(self.fleet.sessions[self.host.host].hello.get("home") or "~") if self._there else "~"
        return home + self.host.run_dir[1:] if self.host.run_dir.startswith("~") else self.host.run_dir

    @property
    def _there(self) -> bool:
        return self.fleet.has(self.host.host)

    async def _ask(self, op: str, arguments: dict[str, Any]) -> dict[str, Any] | Refusal | None:
        """Ask the host; None where it is not open."""
        answers = await self.fleet.ask(op, lambda _host: arguments, hosts=[self.host.host])
        return (
            answers.results.get(self.host.host) or answers.refusals.get(self.host.host) or ({} if self._there else None)
        )


def doing(verb: str, plan: Plan, fates: Replan, why: str = "") -> str:
    """Say what a command is about to do, and why where it was not asked for, for the history."""
    kinds = {"stops": fates.of("stop"), "restarts": fates.of("restart"), "starts": fates.of("start")}
    parts = [f"{word} {', '.join(units)}" for word, units in kinds.items() if units]
    what = " and ".join(parts) or "writes records"
    reason = f", because {why}" if why else ""
    return f"{verb}: {what} (plan {short(plan.digest)}, {plural(len(plan.hosts), 'host')}){reason}"
