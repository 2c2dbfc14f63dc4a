"""The order of a router's buckets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import count, cycle
from typing import Any

import pytest

from sgdeploy.deploy import buckets as buckets_module
from sgdeploy.deploy.buckets import TRIES, by_buckets, expectation, misplaced
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.router import workers_counted
from sgdeploy.plan.model import FrontDoor, PlanHost, Process, Worker
from tests.unit.deploy.fakes import FakeNode, Heard

URLS = tuple(f"http://10.0.0.{number}:30000" for number in (1, 2, 3))
DOOR = FrontDoor(
    host="gw",
    address="10.0.0.9",
    port=30000,
    model="m",
    workers=(
        Worker(url=URLS[0], role="prefill", unit="prefill/short", bootstrap=9001),
        Worker(url=URLS[1], role="prefill", unit="prefill/long", bootstrap=9002),
        Worker(url=URLS[2], role="decode", unit="decode"),
    ),
)


def router(*words: str) -> Process:
    return Process(
        id="d/router",
        role="router",
        host="gw",
        address="10.0.0.9",
        argv=("router", "--pd-disaggregation", *words),
        listens={"http": 30000},
        log="r.log",
    )


BUCKET = router("--policy", "cache_aware", "--prefill-policy", "bucket")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--prefill-policy", "bucket"), True),
        (("--policy", "cache_aware"), False),
        ((), False),
        (("--prefill-policy", "bucket", "--prefill-short-count", "1"), False),
    ],
)
def test_whose_order_is_drawn(words: tuple[str, ...], expected: bool) -> None:
    assert by_buckets(router(*words)) is expected


@pytest.mark.parametrize(
    ("planned", "listed", "moved"),
    [
        ("ab", "ab", ""),
        ("ab", "ba", "ab"),
        ("abc", "abc", ""),
        ("abc", "bac", "ab"),
        ("abc", "bca", "abc"),
        ("abc", "cab", "cab"),
        ("abc", "cba", "abc"),
        ("a", "a", ""),
    ],
)
def test_who_stands_on_the_wrong_side_of_most_others_moves_first(planned: str, listed: str, moved: str) -> None:
    assert "".join(misplaced(planned, listed)) == moved


class DrawingRouter(FakeNode):
    """A host whose router puts a worker that is added where the draw says, between 0 (front) and 1 (end)."""

    def __init__(self, places: Mapping[int, float], draws: Iterable[float] = ()) -> None:
        """Take each worker's place at first, and the place of each addition."""
        super().__init__(PlanHost(host="gw", address="10.0.0.9", ssh="gw", run_dir="/run/d/gw"))
        self.places = dict(places)
        self.draws = iter(draws)
        self.asked: list[tuple[str, str]] = []

    @staticmethod
    def _row(number: int) -> dict[str, Any]:
        role = "decode" if number == 3 else "prefill"
        return {"url": URLS[number - 1], "id": f"id-{number}", "worker_type": role, "is_healthy": True}

    def _http(self, arguments: dict[str, Any]) -> dict[str, Any]:
        method, path, body = arguments["method"], arguments["path"], arguments["body"]
        if method != "GET":
            self.asked.append((method, path))
        if method == "DELETE":
            del self.places[int(path.rpartition("-")[2])]
        if method == "POST":
            number = URLS.index(body["url"]) + 1
            assert body == {"url": URLS[number - 1], "worker_type": "prefill", "bootstrap_port": 9000 + number}
            self.places[number] = next(self.draws)
        rows = [self._row(number) for number in sorted(self.places, key=lambda number: self.places[number])]
        return {"status": 200 if method == "GET" else 202, "body": json.dumps({"workers": rows}), "error": None}


def notes(heard: Heard) -> list[tuple[str, str]]:
    return [(event.level, event.message) for event in heard.events if isinstance(event, Note)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets_module, "PAUSE", 0.01)
    monkeypatch.setattr(buckets_module, "SETTLED", 0.1)


async def arranged(node: DrawingRouter, process: Process = BUCKET) -> Heard:
    heard = Heard()
    await workers_counted(Fleet({"gw": node}), process, DOOR, None, heard)
    return heard


def moved(*numbers: int) -> list[tuple[str, str]]:
    return [asked for number in numbers for asked in (("DELETE", f"/workers/id-{number}"), ("POST", "/workers"))]


async def test_the_planned_order_is_left_alone() -> None:
    node = DrawingRouter({3: 0.1, 1: 0.2, 2: 0.3})
    assert notes(await arranged(node)) == []
    assert node.asked == []


async def test_another_order_is_drawn_anew_until_it_is_the_planned_one() -> None:
    """They move in turns: one that stands at the end would stay in the way of the other for ever."""
    node = DrawingRouter({2: 0.5, 1: 0.9, 3: 0.0}, [0.8, 0.85])
    assert notes(await arranged(node)) == [
        ("info", f"put the router's buckets in order ({URLS[0]} < {URLS[1]}) after 2 attempts")
    ]
    assert node.asked == moved(1, 2)


async def test_a_router_without_drawn_buckets_is_not_asked_to_move_anybody() -> None:
    node = DrawingRouter({2: 0.1, 1: 0.2, 3: 0.3})
    assert notes(await arranged(node, router("--policy", "cache_aware"))) == []
    assert node.asked == []


async def test_an_order_that_never_comes_is_told() -> None:
    node = DrawingRouter({2: 0.0, 1: 1.0, 3: 0.5}, cycle([1.0, 0.0]))
    ((level, message),) = notes(await arranged(node))
    assert level == "warning"
    assert message == (
        f"the router's buckets are not in the planned order ({URLS[0]} < {URLS[1]}) after {TRIES} attempts"
    )
    assert node.asked == moved(*[1, 2] * (TRIES // 2))


@pytest.mark.parametrize("seed", range(20))
async def test_even_draws_find_the_order_long_before_the_tries_end(seed: int) -> None:
    """From the worst places there are; multiples of the golden ratio are spread evenly over the table."""
    node = DrawingRouter({2: 0.01, 1: 0.99, 3: 0.5}, ((seed + number) * 0.618034 % 1 for number in count(1)))
    await arranged(node)
    assert node.places[1] < node.places[2]
    assert len(node.asked) <= TRIES


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--balance-abs-threshold", "1000000000", "--bucket-adjust-interval-secs", "7"),
            (
                "every prompt goes to prefill/short until one interval of 7 s with traffic is over; then longer ones "
                "go to prefill/long. The boundary is the length at which the sorted prompts of an interval reach half "
                "of their characters, so it moves with the traffic"
            ),
        ),
        (
            ("--balance-abs-threshold", "200000", "--balance-rel-threshold", "2.5"),
            (
                "every prompt goes to prefill/short until one interval of 5 s with traffic is over; then longer ones "
                "go to prefill/long. The boundary is the length at which the sorted prompts of an interval reach half "
                "of their characters, so it moves with the traffic; when the instances differ by more than 200,000 "
                "characters and by the factor 2.5 within 5 s, load decides"
            ),
        ),
        (
            (),
            (
                "the router places prompts by load, whatever their length, when the instances differ by more than 64 "
                "characters and by the factor 1.5 within 5 s: one long prompt is enough, and long ones land on every "
                "instance; `router.bucket.balance_abs_threshold: 1000000000` makes length decide"
            ),
        ),
    ],
)
def test_what_to_expect_is_said_with_the_numbers_of_the_settings(words: tuple[str, ...], expected: str) -> None:
    assert expectation(router("--prefill-policy", "bucket", *words), DOOR) == expected


def test_three_instances_are_told_without_a_rule_that_holds_for_two() -> None:
    third = Worker(url="http://10.0.0.4:30000", role="prefill", unit="prefill/huge")
    door = DOOR.model_copy(update={"workers": (*DOOR.workers, third)})
    said = expectation(router("--prefill-policy", "bucket", "--balance-abs-threshold", "1000000000"), door)
    assert said == (
        "every prompt goes to prefill/short until one interval of 5 s with traffic is over; then longer ones go to "
        "prefill/long, prefill/huge. The boundaries are taken from the prompts of an interval, so they move with the "
        "traffic"
    )
