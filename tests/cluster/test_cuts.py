"""A connection breaks in the middle of each step of `up` and `down`: told in time; `down` from elsewhere cleans all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sgdeploy.console.faults import error_lines
from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Event, Note, Outcome
from sgdeploy.deploy.options import DownOptions, Owner, UpOptions
from sgdeploy.deploy.up import up
from sgdeploy.errors import LeftoverError, RemoteError, SgdeployError, StartupError
from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector, Json, LostHostError
from sgdeploy.remote.connect import connector
from tests.cluster.cutting import Cut, Cutting, end_sessions, logins
from tests.cluster.deployments import QUICK, assert_nothing_left, engines, small_profile
from tests.cluster.running import Stopwatch
from tests.kit.hosts import Lab, lent
from tests.kit.labhost import LabHost, wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster]
LEADER, FOLLOWER = 0, 1
NEVER = 40.0
"""Seconds after which a command counts as hanging."""

FIRST = Owner("op", "first", 1, "sgdeploy up small.yaml")
OTHER = Owner("op", "other", 2, "sgdeploy down small.yaml")


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    """Two hosts for the whole module; each test leaves them as it found them."""
    with lent(2, disk="128m") as made:
        yield made


@pytest.fixture
async def hosts(pair: Lab, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[LabHost]]:
    """Give the two hosts, with this thread as their client; afterwards nothing of ours may be left on them."""
    monkeypatch.setenv("HOME", str(pair.home))
    with pair.inside():
        yield pair.hosts
    assert_nothing_left(pair.hosts)


@pytest.fixture
def plan(pair: Lab, tmp_path: Path) -> Plan:
    return compile_profile(small_profile(pair, tmp_path, **QUICK)).plan


def quick() -> Connector:
    """Give a connector that notices silence after 1.5 s instead of 12 s."""
    return connector(connect_timeout=5.0, keepalive=0.5)


def nobody(event: Event) -> None:
    del event


async def bring_up(plan: Plan, connect: Connector) -> None:
    await asyncio.wait_for(up(plan, connect, nobody, UpOptions(FIRST)), NEVER)


async def take_down(plan: Plan, connect: Connector, owner: Owner = FIRST) -> str:
    told: list[Event] = []
    await asyncio.wait_for(down(plan, connect, told.append, DownOptions(owner, grace=1.0)), NEVER)
    outcome = told[-1]
    assert isinstance(outcome, Outcome)
    return outcome.outcome


async def clean_from_elsewhere(plan: Plan, hosts: list[LabHost]) -> str:
    """Mend the cables, see the first controller's logins end, and take down as somebody else."""
    for host in hosts:
        host.mend()
    await asyncio.to_thread(wait_until, lambda: not any(map(logins, hosts)), "the old logins to end", 30.0)
    outcome = await take_down(plan, quick(), OTHER)
    assert [engines(host) for host in hosts] == [[], []]
    return outcome


def files(host: LabHost) -> list[str]:
    """List what there is below the run folders (logs and audit stay between tests)."""
    return sorted(str(path) for path in host.path("/var/lib/sgdeploy").rglob("*"))


def loading(event: Json) -> bool:
    return any(row["milestones"] for row in event.get("observations", ()))


def names(error: SgdeployError) -> set[str]:
    if isinstance(error, LostHostError):
        return {error.host}
    assert isinstance(error, (RemoteError, LeftoverError)), error
    return {fault.host for fault in error.faults}


CABLE = LabHost.cut
UP: list[tuple[str, int, Callable[[LabHost], Cut]]] = [
    ("facts", FOLLOWER, lambda host: Cut(host, "gather", "asked", CABLE)),
    ("lock", LEADER, lambda host: Cut(host, "lock", "answered")),
    ("push asked", LEADER, lambda host: Cut(host, "prepare", "asked", CABLE)),
    ("push done", FOLLOWER, lambda host: Cut(host, "prepare", "answered")),
    ("start", FOLLOWER, lambda host: Cut(host, "start", "answered", CABLE)),
    ("start leader", LEADER, lambda host: Cut(host, "start", "answered")),
    ("watch", LEADER, lambda host: Cut(host, "watch", "answered", CABLE, loading)),
    ("completion", LEADER, lambda host: Cut(host, "complete", "asked")),
]
DOWN: list[tuple[str, int, Callable[[LabHost], Cut]]] = [
    ("records", FOLLOWER, lambda host: Cut(host, "records", "asked")),
    ("signal", LEADER, lambda host: Cut(host, "signal", "answered")),
    ("stop", LEADER, lambda host: Cut(host, "await_gone", "asked", CABLE)),
    ("restore", FOLLOWER, lambda host: Cut(host, "restore", "answered")),
    ("tidy", FOLLOWER, lambda host: Cut(host, "clear", "answered")),
]


@pytest.mark.parametrize(("victim", "make"), [row[1:] for row in UP], ids=[row[0] for row in UP])
async def test_up_tells_who_was_lost_and_down_cleans(
    plan: Plan, hosts: list[LabHost], victim: int, make: Callable[[LabHost], Cut]
) -> None:
    cut = make(hosts[victim])
    with pytest.raises(SgdeployError) as caught:
        await bring_up(plan, Cutting(quick(), [cut]))
    assert cut.done
    assert caught.value.exit_code == 5
    assert names(caught.value) == {hosts[victim].name}
    assert engines(hosts[1 - victim]) == [], "the host that was not lost is clean at once"
    assert await clean_from_elsewhere(plan, hosts) in {"stopped", "nothing"}


@pytest.mark.fault(
    "dies in mid-upload", told="1 host n02: the host has not answered on the SSH connection for …", code=5
)
async def test_a_host_that_dies_while_its_run_folder_is_written(plan: Plan, hosts: list[LabHost], heard: Heard) -> None:
    host, watch = hosts[FOLLOWER], []

    def die(victim: LabHost) -> None:
        watch.append(Stopwatch())
        victim.power_off()

    with pytest.raises(RemoteError) as caught:
        await bring_up(plan, Cutting(quick(), [Cut(host, "prepare", "asked", die)]))
    seconds = watch[0].seconds
    host.power_on()
    assert engines(hosts[LEADER]) == []
    assert await take_down(plan, quick(), OTHER) == "nothing"
    said = " ".join(map(str, error_lines(caught.value)))
    heard(said, caught.value.exit_code, seconds)


@pytest.mark.parametrize(("victim", "make"), [row[1:] for row in DOWN], ids=[row[0] for row in DOWN])
async def test_down_goes_on_with_who_comes_back_and_tells_who_does_not(
    plan: Plan, hosts: list[LabHost], victim: int, make: Callable[[LabHost], Cut]
) -> None:
    await bring_up(plan, quick())
    cut = make(hosts[victim])
    if cut.how is not CABLE:
        assert await take_down(plan, Cutting(quick(), [cut])) == "stopped"
        assert cut.done
        assert [engines(host) for host in hosts] == [[], []]
        return
    with pytest.raises(LeftoverError) as caught:
        await take_down(plan, Cutting(quick(), [cut]))
    assert cut.done
    assert names(caught.value) == {hosts[victim].name}
    assert engines(hosts[1 - victim]) == []
    assert await clean_from_elsewhere(plan, hosts) == "stopped"


async def test_a_lock_whose_release_is_lost_is_released(plan: Plan, hosts: list[LabHost]) -> None:
    await bring_up(plan, quick())
    cut = Cut(hosts[LEADER], "unlock", "asked")
    assert await take_down(plan, Cutting(quick(), [cut])) == "stopped"
    assert cut.done
    assert await take_down(plan, quick(), OTHER) == "nothing"


@pytest.mark.parametrize("how", [LabHost.cut, end_sessions], ids=["silence", "reset"])
async def test_a_cut_while_connecting_is_told_and_nothing_is_changed(
    plan: Plan, hosts: list[LabHost], how: Callable[[LabHost], None]
) -> None:
    host = hosts[FOLLOWER]
    before = [files(each) for each in hosts]
    host.write("/root/.bashrc", "touch /tmp/began; while kill -0 $PPID; do sleep 0.1; done\n")
    coming = asyncio.create_task(bring_up(plan, quick()))
    try:
        await asyncio.to_thread(wait_until, host.path("/tmp/began").exists, "the login to begin")
        how(host)
        with pytest.raises(RemoteError, match="1 of 2 hosts could not be reached") as caught:
            await coming
    finally:
        host.mend()
        host.write("/root/.bashrc", "")
        host.path("/tmp/began").unlink()
    assert [fault.host for fault in caught.value.faults] == [host.name]
    assert "before its first word, " in caught.value.faults[0].reason
    assert [files(each) for each in hosts] == before


async def test_a_cut_while_a_failure_is_cleaned_does_not_hide_it(
    pair: Lab, hosts: list[LabHost], tmp_path: Path
) -> None:
    profile = small_profile(pair, tmp_path, **QUICK, SGDEPLOY_REHEARSE_FAIL="exit3@load:n1")
    plan = compile_profile(profile).plan
    cut = Cut(hosts[LEADER], "clear", "asked")
    told: list[Event] = []
    with pytest.raises(StartupError) as caught:
        await asyncio.wait_for(up(plan, Cutting(quick(), [cut]), told.append, UpOptions(FIRST)), NEVER)
    assert cut.done
    assert caught.value.faults[0].process == "small/native/n02"
    notes = [event for event in told if isinstance(event, Note) and event.hosts == ("n01",)]
    assert notes[-1].message.startswith("could not be cleaned: ")
    assert await clean_from_elsewhere(plan, hosts) == "stopped"


async def test_short_cuts_are_survived(plan: Plan, hosts: list[LabHost]) -> None:
    def for_a_second(host: LabHost) -> None:
        host.cut()
        asyncio.get_running_loop().call_later(1.0, host.mend)

    leader, follower = hosts
    cuts = [
        Cut(follower, "gather", "asked", for_a_second),
        Cut(leader, "prepare", "asked", for_a_second),
        Cut(follower, "watch", "answered", for_a_second, loading),
        Cut(leader, "complete", "asked", for_a_second),
    ]
    await bring_up(plan, Cutting(connector(), cuts))
    assert [cut.done for cut in cuts] == [True] * len(cuts)
    assert await take_down(plan, quick()) == "stopped"
