"""Stopping what we started, and proving that it is gone.

Order (facts of the engine): a follower ignores SIGTERM; TERM to a whole group kills schedulers in mid-step. So
the leaders get TERM first and drain; their followers then leave by themselves; whoever is left gets TERM as a group,
then KILL as a tree. Only recorded processes and their proven descendants are ever signalled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sgdeploy.deploy.events import HostState, Note, Tell
from sgdeploy.deploy.fleet import Answers, Fleet
from sgdeploy.errors import HostFault, Leftover
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Json
from sgdeploy.words import plural

FOLLOW_GRACE = 8.0
"""Seconds for followers to leave after their leader did (the real engine: 6 to 8 s after TERM to the leader)."""

LAST = "prefill"
ORDER: tuple[tuple[str, ...], ...] = (("router",), ("tokenizer",), ("decode",), (LAST, "native"))
"""Roles in the order in which they stop: no new request comes in, what is under way is finished, then the rest."""

TERM_GRACE = 3.0
"""Seconds between TERM to a group and KILL."""

KILL_GRACE = 10.0
"""Seconds for the kernel to take away what was killed (a process in disk sleep goes late)."""

SLACK = 15.0
"""Seconds added to a bounded wait on the node, for the answer to travel."""


@dataclass
class Stopped:
    """What stopping found: who was signalled, and what could not be proven gone."""

    leftovers: list[Leftover] = field(default_factory=list)
    faults: list[HostFault] = field(default_factory=list)

    def __add__(self, other: Stopped) -> Stopped:
        """Put two findings together."""
        return Stopped([*self.leftovers, *other.leftovers], [*self.faults, *other.faults])

    @property
    def hosts(self) -> set[str]:
        """Hosts on which something could not be proven."""
        return {item.host for item in self.leftovers} | {fault.host for fault in self.faults}

    @property
    def proven(self) -> bool:
        """Everything is gone, on every host."""
        return not self.leftovers and not self.faults


class Stopper:
    """Takes the processes of one recorded plan down on the hosts of a fleet."""

    def __init__(self, fleet: Fleet, plan: Plan, tell: Tell) -> None:
        """Keep the recorded plan: it says who leads and which ports must be free afterwards."""
        self._fleet = fleet
        self._plan = plan
        self._tell = tell

    async def stop(self, living: Mapping[str, Collection[str]], *, grace: float, now: bool) -> Stopped:
        """Stop the given processes and prove it.

        Args:
            living: host → ids of recorded processes that (or whose descendants) live.
            grace: seconds that leaders may take to drain.
            now: no drain, KILL at once.
        """
        stopped = Stopped()
        everything = {host: sorted(ids) for host, ids in living.items() if ids and self._fleet.has(host)}
        for host, ids in everything.items():
            self._tell(HostState(host, "stopping", plural(len(ids), "process")))
        # Before the first of them is told: when it goes, its peers end as if they had failed.
        self._collect(await self._about_to_end(everything), stopped)
        roles = {process.id: process.role for process in self._plan.processes}
        for group in ORDER:
            left = {host: [i for i in ids if roles.get(i, LAST) in group] for host, ids in everything.items()}
            await self._stop_group({host: ids for host, ids in left.items() if ids}, stopped, grace=grace, now=now)
        return stopped

    async def _stop_group(self, left: dict[str, list[str]], stopped: Stopped, *, grace: float, now: bool) -> None:
        if not now:
            left = await self._leaders_first(left, grace, stopped)
            left = await self._pass(left, "group", "TERM", TERM_GRACE, stopped)
        await self._pass(left, "tree", "KILL", KILL_GRACE, stopped)

    async def _leaders_first(self, left: dict[str, list[str]], grace: float, stopped: Stopped) -> dict[str, list[str]]:
        leaders = {process.id for process in self._plan.processes if process.leader or process.node_rank is None}
        first = {host: [i for i in ids if i in leaders] for host, ids in left.items()}
        first = {host: ids for host, ids in first.items() if ids}
        if not first:
            return left
        self._collect(await self._signal(first, "main", "TERM"), stopped)
        self._collect(await self._gone(first, "main", grace), stopped)
        answers = await self._gone(left, "tree", min(grace, FOLLOW_GRACE))
        self._collect(answers, stopped)
        return self._survivors(answers)

    async def _pass(
        self, left: dict[str, list[str]], scope: str, signal: str, patience: float, stopped: Stopped
    ) -> dict[str, list[str]]:
        """Signal whoever is left, wait, and give who is left then; after KILL they are leftovers."""
        if not left:
            return left
        self._collect(await self._signal(left, scope, signal), stopped)
        answers = await self._gone(left, "tree", patience)
        self._collect(answers, stopped)
        if signal == "KILL":
            stopped.leftovers += [
                Leftover(host, f"process {s['pid']} ({s['title']}) of {s['id']} is still there after SIGKILL")
                for host, result in answers.results.items()
                for s in result["survivors"]
            ]
        return self._survivors(answers)

    async def _about_to_end(self, ids: Mapping[str, list[str]]) -> Answers:
        return await self._fleet.ask(
            "about_to_end", lambda host: {"run_dir": host.run_dir, "ids": ids[host.host]}, hosts=ids
        )

    async def _signal(self, ids: Mapping[str, list[str]], scope: str, signal: str) -> Answers:
        return await self._fleet.ask(
            "signal",
            lambda host: {"run_dir": host.run_dir, "ids": ids[host.host], "scope": scope, "signal": signal},
            hosts=ids,
        )

    async def _gone(self, ids: Mapping[str, list[str]], scope: str, patience: float) -> Answers:
        return await self._fleet.ask(
            "await_gone",
            lambda host: {
                "run_dir": host.run_dir,
                "ids": ids[host.host],
                "scope": scope,
                "timeout": patience,
            },
            hosts=ids,
            limit=patience + SLACK,
        )

    @staticmethod
    def _survivors(answers: Answers) -> dict[str, list[str]]:
        found = {
            host: sorted({survivor["id"] for survivor in result["survivors"]})
            for host, result in answers.results.items()
        }
        return {host: ids for host, ids in found.items() if ids}

    @staticmethod
    def _collect(answers: Answers, stopped: Stopped) -> None:
        known = {fault.host for fault in stopped.faults}
        stopped.faults += [fault for fault in answers.faults if fault.host not in known]

    async def tidy_some(self, ids: Mapping[str, Collection[str]], *, audit: tuple[str, str] | None) -> Stopped:
        """After some processes of hosts on which others go on are gone: their ports free, their records away.

        Args:
            ids: host → ids of the processes that are gone.
            audit: who did what, for the audit line on each host; None where nothing was done that deserves one.
        """
        stopped = await self._ports_free(ids, {i for there in ids.values() for i in there})
        await self._audit(ids, audit)
        clean = [host for host in ids if host not in stopped.hosts]
        cleared = await self._fleet.ask(
            "clear", lambda host: {"run_dir": host.run_dir, "ids": sorted(ids[host.host])}, hosts=clean
        )
        self._collect(cleared, stopped)
        return stopped

    async def tidy(self, hosts: Collection[str], *, keep_records: bool, audit: tuple[str, str] | None) -> Stopped:
        """After the processes are gone: ports free, hugepages back, records away; each step proven per host.

        Args:
            hosts: names of hosts to tidy.
            keep_records: leave the records where they are.
            audit: who did what, for the audit line on each host; None where nothing was done that deserves one.
        """
        stopped = Stopped()
        restored = await self._fleet.ask(
            "restore", lambda host: {"run_dir": host.run_dir, "sysfs_root": host.sysfs_root}, hosts=hosts
        )
        self._collect(restored, stopped)
        # Who restores has seen that nothing of ours lives there, on record or not: what listens now is a stranger.
        ports = await self._ports_free(restored.results)
        stopped.leftovers += ports.leftovers
        stopped.faults += ports.faults
        await self._audit(hosts, audit)
        bad = stopped.hosts
        clean = [host for host in hosts if host not in bad]
        if not keep_records:
            self._collect(await self._fleet.ask("clear", lambda host: {"run_dir": host.run_dir}, hosts=clean), stopped)
        for host in clean:
            self._tell(HostState(host, "stopped"))
        if bad:
            self._tell(Note("records are kept until the host is proven clean", "warning", tuple(sorted(bad))))
        return stopped

    async def _audit(self, hosts: Iterable[str], audit: tuple[str, str] | None) -> None:
        if audit is None:
            return
        await self._fleet.ask(
            "audit", lambda host: {"run_dir": host.run_dir, "who": audit[0], "what": audit[1]}, hosts=hosts
        )

    async def _ports_free(self, hosts: Iterable[str], ids: Collection[str] | None = None) -> Stopped:
        """Look for listeners on planned ports of these hosts (of these processes only, where ``ids`` says so).

        All of ours is proven gone: somebody else who has taken a port since is told, and holds nothing up. Where we
        may not see who it is, that is no proof.
        """
        stopped = Stopped()
        ports = await self._fleet.ask("ports", lambda host: {"ports": self._ports(host.host, ids)}, hosts=hosts)
        self._collect(ports, stopped)
        for host, result in ports.results.items():
            for entry in result["listening"]:
                if entry.get("pid") is None:
                    message = f"port {entry['port']} is held by a process that we may not see"
                    stopped.leftovers.append(Leftover(host, message))
                else:
                    who = f"pid {entry['pid']} ({entry['command']}), which is none of ours"
                    self._tell(Note(f"port {entry['port']} is held by {who}", "warning", (host,)))
        return stopped

    def _ports(self, host: str, ids: Collection[str] | None) -> list[Json]:
        return [
            {"address": process.address, "port": port}
            for process in self._plan.on_host(host)
            for port in process.listens.values()
            if port is not None and (ids is None or process.id in ids)
        ]
