"""Which prefill served a prompt, as the router's metrics tell it."""

from __future__ import annotations

from typing import Any

import pytest

from sgdeploy.deploy import served as served_module
from sgdeploy.deploy.completion import told
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.served import Tally, answers_by_worker
from sgdeploy.plan.model import Plan, PlanHost, Process, Worker
from tests.unit.deploy.fakes import FakeNode, make_plan

SHORT, LONG, DECODE = (f"http://10.0.0.{number}:30000" for number in (1, 2, 3))
METRICS = f"""\
# TYPE smg_worker_cb_outcomes_total counter
smg_worker_cb_outcomes_total{{worker="{SHORT}",outcome="success"}} 23
smg_worker_cb_outcomes_total{{worker="{SHORT}",outcome="failure"}} 4
smg_worker_cb_outcomes_total{{outcome="success",worker="{DECODE}"}} 2.4e1
smg_worker_cb_state{{worker="{LONG}"}} 0
"""


def with_router(*words: str, prefills: int = 2) -> Plan:
    """Give a plan whose only process is a router of so many prefill instances."""
    plan = make_plan(1)
    router = Process(
        id="demo/router",
        role="router",
        host="h1",
        address="10.0.0.9",
        argv=("router", *words),
        listens={"http": 30000, "metrics": 29001},
        log="router.log",
    )
    workers = [
        Worker(url=SHORT, role="prefill", unit="prefill/short"),
        Worker(url=LONG, role="prefill", unit="prefill/long"),
    ][:prefills]
    door = plan.front_door.model_copy(update={"workers": (*workers, Worker(url=DECODE, role="decode", unit="decode"))})
    return plan.model_copy(update={"processes": (router,), "front_door": door})


class CountingNode(FakeNode):
    """A host whose router says for each question what stands next in the list, the last for ever."""

    def __init__(self, *counts: tuple[int, int] | None) -> None:
        """Take the counts of both prefill instances; None where it does not answer."""
        super().__init__(PlanHost(host="h1", address="10.0.0.9", ssh="h1", run_dir="/run/demo/h1"))
        self.counts = list(counts)

    def _http(self, arguments: dict[str, Any]) -> dict[str, Any]:
        assert arguments["path"] == "/metrics"
        now = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        if now is None:
            return {"status": None, "body": "", "error": "refused"}
        rows = [
            f'smg_worker_cb_outcomes_total{{worker="{url}",outcome="success"}} {count}'
            for url, count in zip((SHORT, LONG), now, strict=True)
            if count
        ]
        return {"status": 200, "body": "\n".join(rows), "error": None}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_module, "PAUSE", 0.001)


def test_good_answers_are_counted_by_worker() -> None:
    assert answers_by_worker(METRICS) == {SHORT: 23, DECODE: 24}
    assert answers_by_worker("<html>") == {}


@pytest.mark.parametrize(
    ("counts", "prefill"),
    [
        (((3, 0), (4, 0)), "prefill/short"),
        (((3, 0), (3, 0), (3, 0), (3, 1)), "prefill/long"),  # the count comes a moment later
        (((3, 0), (4, 1)), None),  # somebody else asks too
        (((3, 0), (5, 0)), None),
        (((3, 0), (3, 0)), None),
        (((3, 0), None), None),
        ((None, (1, 0)), None),
    ],
)
async def test_the_instance_whose_count_grew_by_one_served_it(
    counts: tuple[tuple[int, int] | None, ...], prefill: str | None
) -> None:
    node = CountingNode(*counts)
    completion = await told(Fleet({"h1": node}), with_router(), {}, "Hi")
    assert (completion.prompt, completion.prefill) == ("Hi", prefill)


@pytest.mark.parametrize("plan", [make_plan(1), with_router(prefills=1)], ids=["no router", "one prefill"])
async def test_where_there_is_nothing_to_tell_apart_nobody_is_asked(plan: Plan) -> None:
    node = CountingNode((1, 0), (2, 0))
    assert (await told(Fleet({"h1": node}), plan, {}, "Hi")).prefill is None
    assert node.ops() == ["complete"]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ((), "10.0.0.9"),
        (("--prometheus-host", "0.0.0.0"), "10.0.0.9"),
        (("--prometheus-host", "::"), "10.0.0.9"),
        (("--prometheus-host", "127.0.0.1"), "127.0.0.1"),
        (("--prometheus-host", "gateway"), "gateway"),
    ],
)
async def test_the_metrics_are_asked_where_they_are(words: tuple[str, ...], address: str) -> None:
    node = CountingNode((1, 2))
    assert await Tally(Fleet({"h1": node}), with_router(*words)).counts() == {"prefill/short": 1, "prefill/long": 2}
    assert (node.calls[0][1]["address"], node.calls[0][1]["port"]) == (address, 29001)
