"""What a controller remembers: a host that may hold records is forgotten only once it is proven clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgdeploy.deploy.registry import Registry
from sgdeploy.errors import StateError
from sgdeploy.plan.model import Plan
from tests.unit.deploy.fakes import make_plan
from tests.unit.deploy.test_replan import elsewhere


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def held(registry: Registry) -> list[str]:
    known = registry.recall("demo")
    assert known is not None
    return [host.host for host in known.hosts]


def start(registry: Registry, plan: Plan) -> None:
    registry.remember(plan, Path("/p.yaml"), sets=("a=1",))


def test_a_start_elsewhere_forgets_no_host(registry: Registry) -> None:
    plan = make_plan(2)
    start(registry, plan)
    start(registry, elsewhere(plan))
    start(registry, elsewhere(plan))
    assert held(registry) == ["h1", "h2", "n1", "n2"]
    registry.proven_clean("demo", plan.hosts[:1])
    assert held(registry) == ["h2", "n1", "n2"]
    known = registry.recall("demo")
    assert known is not None
    assert (known.plan, known.sets, known.away) == (elsewhere(plan), ("a=1",), False)


def test_a_host_that_got_another_run_folder_is_two_places(registry: Registry) -> None:
    plan = make_plan(1)
    start(registry, plan)
    start(registry, plan.model_copy(update={"hosts": (plan.hosts[0].model_copy(update={"run_dir": "/x"}),)}))
    registry.proven_clean("demo", plan.hosts)
    known = registry.recall("demo")
    assert known is not None
    assert [host.run_dir for host in known.hosts] == ["/x"]


def test_what_was_taken_down_everywhere_is_held_nowhere(registry: Registry) -> None:
    start(registry, make_plan(2))
    assert registry.live() == ("demo",)
    registry.put_away("demo")
    assert (held(registry), registry.live(), registry.names()) == ([], (), ("demo",))
    start(registry, make_plan(1))
    assert (held(registry), registry.live()) == (["h1"], ("demo",))


@pytest.mark.parametrize(("away", "hosts"), [(False, ["h1", "h2"]), (True, [])])
def test_a_record_without_hosts_means_those_of_its_plan(registry: Registry, hosts: list[str], *, away: bool) -> None:
    start(registry, make_plan(2))
    file = registry.base / "demo" / "known.json"
    file.write_text(json.dumps({"profile": "/p.yaml", "sets": [], "overlays": [], "away": away}))
    assert (held(registry), registry.live()) == (hosts, () if away else ("demo",))


def test_a_damaged_record_holds_no_start_up(registry: Registry) -> None:
    start(registry, make_plan(2))
    (registry.base / "demo" / "plan.json").write_text("{")
    registry.put_away("demo")
    start(registry, make_plan(1))
    assert held(registry) == ["h1"]


@pytest.mark.parametrize("name", ["plan.json", "known.json"])
@pytest.mark.parametrize("text", ["[" * 200_000, "[]", "{", "5", json.dumps({"profile": 5})])
def test_a_memory_of_any_other_shape_is_damaged(tmp_path: Path, name: str, text: str) -> None:
    known = Registry(tmp_path)
    known.remember(make_plan(), tmp_path / "demo.yaml")
    (tmp_path / "demo" / name).write_text(text)
    with pytest.raises(StateError, match="demo: the record of deployment demo cannot be read"):
        known.recall("demo")
    assert known.live() == ("demo",)
