"""`ask`: a completion through the front door, against the simulated engine on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sgdeploy.errors import RemoteError
from sgdeploy.plan.model import FrontDoor
from sgdeploy.remote.front_door import Piece, ask
from tests.rehearse.kit import READY, Rank, Ranks, free_port, ranks_in

HOST = "127.0.4.1"


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with ranks_in(tmp_path) as started:
        yield started


def serving(ranks: Ranks, *flags: str) -> Rank:
    return ranks.start(*flags, host=HOST).sees(READY)


def door(rank: Rank) -> FrontDoor:
    return FrontDoor(host="here", address=rank.host, port=rank.port, model="m")


async def asked(where: FrontDoor, key: str | None = None) -> list[Piece]:
    return [piece async for piece in ask(where, "hello", deployment="d1", max_tokens=5, api_key=key)]


async def test_pieces_come_with_times_and_the_servers_own_count(ranks: Ranks) -> None:
    pieces = await asked(door(serving(ranks)))
    assert "".join(piece.text for piece in pieces).split()
    assert [piece.tokens for piece in pieces if piece.tokens is not None] == [5]
    assert [piece.seconds for piece in pieces] == sorted(piece.seconds for piece in pieces)


async def test_proxies_of_the_environment_are_not_used(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await asked(door(serving(ranks)))


async def test_a_key_that_is_missing_is_named_with_the_next_step(ranks: Ranks) -> None:
    rank = serving(ranks, "--api-key", "k")
    assert await asked(door(rank), "k")
    with pytest.raises(RemoteError) as caught:
        await asked(door(rank))
    assert "answered 401" in caught.value.faults[0].reason
    assert "api-key: ${env:NAME}" in (caught.value.faults[0].hint or "")


async def test_nobody_there_is_a_fault_of_that_host() -> None:
    where = FrontDoor(host="gw", address=HOST, port=free_port(HOST), model="m")
    with pytest.raises(RemoteError) as caught:
        await asked(where)
    assert caught.value.faults[0].host == "gw"
    assert f"{where.url} cannot be reached from this machine" in caught.value.faults[0].reason
    assert "`sgdeploy status d1`" in str(caught.value.faults[0].hint)
