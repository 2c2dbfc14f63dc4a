"""Selectors: which part of a deployment is meant."""

from __future__ import annotations

import pytest

from sgdeploy.errors import UsageError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.plan.selector import selected, selected_units
from tests.unit.deploy.fakes import make_plan


def two_roles() -> Plan:
    def process(role: str, instance: str | None, host: str) -> Process:
        unit = role if instance is None else f"{role}/{instance}"
        row = {"id": f"d/{unit}/{host}", "role": role, "instance": instance, "host": host, "address": host}
        return Process.model_validate({**row, "argv": ["x"], "log": "x.log"})

    rows = [
        process("prefill", "short", "n1"),
        process("prefill", "short", "n2"),
        process("prefill", "long", "n3"),
        process("decode", None, "m1"),
        process("router", None, "gw"),
    ]
    stages = (("prefill/short", "prefill/long", "decode"), ("router",))
    return make_plan().model_copy(update={"name": "d", "processes": tuple(rows), "stages": stages})


@pytest.mark.parametrize(
    ("selectors", "units"),
    [
        ((), ("prefill/short", "prefill/long", "decode", "router")),
        (("router",), ("router",)),
        (("prefill",), ("prefill/short", "prefill/long")),
        (("prefill/long",), ("prefill/long",)),
        (("router", "prefill/s*"), ("prefill/short", "router")),
        (("n[12]",), ("prefill/short",)),
        (("*",), ("prefill/short", "prefill/long", "decode", "router")),
    ],
)
def test_units_come_in_the_order_in_which_they_start(selectors: tuple[str, ...], units: tuple[str, ...]) -> None:
    assert selected_units(two_roles(), selectors) == units


def test_hosts_select_processes() -> None:
    assert [process.host for process in selected(two_roles(), ("n2", "m*"))] == ["n2", "m1"]


def test_a_part_of_an_instance_is_refused_with_the_whole_one() -> None:
    with pytest.raises(UsageError, match="n2 means only a part of prefill/short") as caught:
        selected_units(two_roles(), ("n2",))
    assert caught.value.hint == "select `prefill/short`"


def test_a_selector_that_means_nothing_is_answered_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="nothing in d is called `prefil/long`") as caught:
        selected(two_roles(), ("prefil/long",))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(
        "did you mean `prefill/long`? units: prefill/short, prefill/long, decode, router"
    )


def test_a_large_deployment_is_selected_without_comparing_its_processes_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(one: Process, _other: object) -> bool:
        raise AssertionError(f"{one.id} is compared with another process")

    plan = two_roles()
    monkeypatch.setattr(Process, "__eq__", refuse)
    assert selected_units(plan, ("prefill",)) == ("prefill/short", "prefill/long")
    with pytest.raises(UsageError, match="n2 means only a part of prefill/short"):
        selected_units(plan, ("n2",))
