"""The router's view of its workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgdeploy.deploy import router as router_module
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.router import missing_workers, workers_counted
from sgdeploy.errors import StartupError
from sgdeploy.plan.model import FrontDoor, PlanHost, Process, Worker
from tests.unit.deploy.fakes import FakeNode, Heard

ROUTER = Process(
    id="d/router", role="router", host="gw", address="10.0.0.9", argv=("r",), listens={"http": 30000}, log="r.log"
)
PLANNED = (
    Worker(url="http://10.0.0.1:30000", role="prefill", unit="prefill/short", bootstrap=9001),
    Worker(url="http://10.0.0.2:30000", role="prefill", unit="prefill/long"),
    Worker(url="http://10.0.0.3:30000", role="decode", unit="decode"),
)
DOOR = FrontDoor(host="gw", address="10.0.0.9", port=30000, model="m", workers=PLANNED)


def answer(**healthy: bool) -> dict[str, Any]:
    rows = [{"url": f"http://10.0.0.{n[1:]}:30000", "is_healthy": well} for n, well in healthy.items()]
    return {"workers": rows, "total": len(rows)}


def test_a_worker_counts_only_when_it_is_listed_and_healthy() -> None:
    assert missing_workers(PLANNED, answer(w1=True, w2=True, w3=True)) == {}
    assert missing_workers(PLANNED, answer(w1=True, w3=False)) == {
        PLANNED[1]: "not registered",
        PLANNED[2]: "registered, but not healthy",
    }
    assert len(missing_workers(PLANNED, {})) == 3


class RouterNode(FakeNode):
    """A host whose router knows a worker once it was added so many times, or never."""

    def __init__(self, known: dict[str, bool], *, takes: int = 0) -> None:
        """Take what the router knows, and which attempt to add a worker succeeds, 0 for none."""
        super().__init__(PlanHost(host="gw", address="10.0.0.9", ssh="gw", run_dir="/run/d/gw"))
        self.known, self.takes = known, takes
        self.added: list[dict[str, Any]] = []
        self.jobs = iter(("pending", "processing", "failed") * 1000)

    def _http(self, arguments: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = answer(**self.known)
        if arguments["method"] == "POST":
            self.added.append(arguments["body"])
            name = "w" + arguments["body"]["url"].split(":")[1].rpartition(".")[2]
            self.known |= {name: True} if len(self.added) == self.takes else {}
            body = {"worker_id": f"id-{name}"}
        elif arguments["path"] == "/workers/id-w1":
            body = {"job_status": {"status": next(self.jobs), "message": "nobody listens there"}}
        return {"status": 202 if arguments["method"] == "POST" else 200, "body": json.dumps(body), "error": None}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "PAUSE", 0.01)
    monkeypatch.setattr(router_module, "LATE", 0.05)
    monkeypatch.setattr(router_module, "LIMIT", 1.0)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_worker_that_the_router_gave_up_is_added_until_it_is_there(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is waited for: only then comes another one. The operator is told once."""
    monkeypatch.setattr(router_module, "LIMIT", 30.0)
    node, heard = RouterNode({"w2": True, "w3": True}, takes=times), Heard()
    await workers_counted(Fleet({"gw": node}), ROUTER, DOOR, None, heard)
    body = {"url": "http://10.0.0.1:30000", "worker_type": "prefill", "bootstrap_port": 9001}
    assert node.added == [body] * times
    assert [event.message for event in heard.events if isinstance(event, Note)] == [
        "the router does not know http://10.0.0.1:30000: it is added"
    ]


async def test_a_router_that_never_counts_a_worker_fails_with_its_name() -> None:
    node = RouterNode({"w1": True, "w2": False, "w3": True})
    with pytest.raises(StartupError) as caught:
        await workers_counted(Fleet({"gw": node}), ROUTER, DOOR, None, Heard())
    assert "prefill http://10.0.0.2:30000: registered, but not healthy" in caught.value.faults[0].reason
    assert caught.value.faults[0].process == "d/router"


async def test_a_worker_that_cannot_be_added_is_told_with_the_routers_reason() -> None:
    node = RouterNode({"w2": True, "w3": True})
    with pytest.raises(StartupError) as caught:
        await workers_counted(Fleet({"gw": node}), ROUTER, DOOR, None, Heard())
    (fault,) = caught.value.faults
    assert "prefill http://10.0.0.1:30000: not registered; the router says: nobody listens there" in fault.reason
