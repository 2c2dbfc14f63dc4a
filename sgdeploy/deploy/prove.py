"""The last mile of `up`, `restart` and `wait`: the router counts its workers, and completions come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sgdeploy.deploy.buckets import by_buckets, expectation
from sgdeploy.deploy.completion import LONG_PROMPT, PROMPT, NoCompletionError, told
from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.router import workers_counted
from sgdeploy.deploy.watch import Watch
from sgdeploy.errors import ProcessFault, StartupError
from sgdeploy.plan.model import Plan, Process


@dataclass(frozen=True)
class Proof:
    """Shows that a deployment whose ranks are all ready serves.

    Attributes:
        fleet: the open hosts.
        plan: what runs on them.
        secrets: value of every secret variable, for the key that the front door asks for.
        tell: hears of workers, completions, and what the buckets do.
    """

    fleet: Fleet
    plan: Plan
    secrets: Mapping[str, str] = field(repr=False)
    tell: Tell

    @property
    def routers(self) -> tuple[Process, ...]:
        """The router, where there is one."""
        return tuple(process for process in self.plan.processes if process.role == "router")

    async def workers(self, watch: Watch) -> None:
        """Wait until the router counts every planned worker.

        Raises:
            StartupError: it does not, or a process failed meanwhile.
        """
        door = self.plan.front_door
        key = None if door.api_key is None else self.secrets.get(door.api_key.variable)
        for router in self.routers:
            stall = self.plan.limits.stall
            await watch.guard(workers_counted(self.fleet, router, door, key, self.tell, stall=stall))

    async def completions(self, watch: Watch) -> None:
        """Send what proves that it serves, and say what the router's buckets do with prompts.

        Raises:
            StartupError: no completion came back, or a process failed meanwhile.
        """
        await watch.guard(self._complete())
        for router in filter(by_buckets, self.routers):
            self.tell(Note(expectation(router, self.plan.front_door), hosts=(router.host,)))

    async def _complete(self) -> None:
        door = self.plan.front_door
        prompts = (PROMPT, LONG_PROMPT) if self.plan.topology == "two-bucket-prefill" else (PROMPT,)
        try:
            for prompt in prompts:
                self.tell(await told(self.fleet, self.plan, self.secrets, prompt))
        except NoCompletionError as error:
            server = next(p for p in self.plan.on_host(door.host) if p.listens.get("http") == door.port)
            folder = next(host.run_dir for host in self.plan.hosts if host.host == door.host)
            raise StartupError(
                "every rank looks ready, but no completion came back",
                [ProcessFault(server.id, server.host, str(error), log=f"{folder}/logs/{server.log}")],
            ) from error
