"""Two plans compared: every difference is named, and nothing differs exactly where the plans are equal."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from sgdeploy.plan.argv import split
from sgdeploy.plan.compare import SWITCH, Change, alike, compare
from sgdeploy.plan.model import Plan
from sgdeploy.plan.part import Part
from tests.unit.plan.conftest import CPU, NAMED, PD, Compile

SECOND = "native/n2"


def changes(compiled: Compile, *overrides: str, text: str = CPU, label: str = SECOND) -> list[tuple[str, Any, Any]]:
    found = compare(compiled(text).plan, compiled(text, *overrides).plan).processes.changed.get(label, ())
    return [(change.what, change.before, change.after) for change in found]


def test_equal_plans_do_not_differ(compiled: Compile) -> None:
    plan = compiled(PD).plan
    found = compare(plan, Plan.from_json(plan.to_json()))
    assert found.same
    assert (found.whole, found.hosts.changed, found.processes.total) == ((), {}, len(plan.processes))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("native.flags.page-size=32", [("--page-size", None, "32")]),
        ("engine.flags.max-total-tokens=null", [("--max-total-tokens", "8192", None)]),
        ("engine.flags.trust-remote-code=true", [("--trust-remote-code", None, SWITCH)]),
        ('model.path="/models/a b"', [("--model-path", "/models/tiny", "'/models/a b'")]),
        ("native.env.MODE=fast", [("env MODE", None, "fast")]),
        ("native.env.API_KEY=${env:MY_KEY}", [("env API_KEY", None, "${env:MY_KEY}")]),
        ("native.env.PATH=/opt/bin", [("search path PATH", None, "/opt/bin")]),
        ("native.port=31000", [("--port", "30000", "31000"), ("listens.http", 30000, 31000)]),
        ("native.cores=0-3", [("cores", None, [0, 1, 2, 3])]),
        ("engine.cwd=/data", [("cwd", None, "/data")]),
        ("engine.executable=/opt/sgl", [("program", "python -m sglang.launch_server", "/opt/sgl")]),
    ],
)
def test_what_one_change_of_a_profile_does_to_a_process(
    compiled: Compile, override: str, expected: list[tuple[str, Any, Any]]
) -> None:
    assert changes(compiled, override) == expected


def test_hosts_that_come_and_go(compiled: Compile) -> None:
    found = compare(compiled(CPU).plan, compiled(CPU, "native.hosts=[n2, n3]").plan)
    assert (found.hosts.gone, found.hosts.new) == (("n1",), ("n3",))
    assert (found.processes.gone, found.processes.new) == (("native/n1",), ("native/n3",))
    assert list(found.processes.changed) == ["native/n2"]
    assert Change("front_door.host", "n1", "n2") in found.whole


def test_a_renamed_deployment_is_still_compared(compiled: Compile) -> None:
    found = compare(compiled(CPU).plan, compiled(CPU, "name=other").plan)
    assert found.whole == (Change("name", "tiny", "other"),)
    assert found.processes.same
    assert [change.what for change in found.hosts.changed["n1"]] == ["run_dir"]


def test_a_part_is_compared_alone(compiled: Compile) -> None:
    before, after = compiled(NAMED).plan, compiled(NAMED, "native.b.port=31000", "health.grace=5s").plan
    assert compare(before, after, Part(only=("native/a",))).same
    assert compare(before, after, Part(host="n1")).same
    found = compare(before, after, Part(only=("native/*",), host="n4"))
    assert (list(found.processes.changed), found.processes.total, found.whole) == (["native/b/n4"], 1, ())


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Name every place in a JSON value that holds text, a number or a switch."""
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    elif value is not None:
        yield path


def other(value: Any) -> list[Any]:
    """Give values of the same kind; a field that takes some words only refuses the first."""
    if isinstance(value, bool):
        return [not value]
    return [value + 1] if isinstance(value, (int, float)) else [f"{value}x", "off", "local", "decode", "pd", "0755"]


def changed(data: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[Plan]:
    """Give the plan with one value changed, where some other value is allowed there."""
    for value in other(_at(data, path)):
        mutated = copy.deepcopy(data)
        holder = _at(mutated, path[:-1])
        holder[path[-1]] = value
        try:
            plan = Plan.model_validate(mutated)
        except ValueError:
            continue
        yield plan
        return


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def test_no_value_of_a_plan_can_change_unseen(compiled: Compile) -> None:
    plan = compiled(PD, "engine.flags.api-key=${env:KEY}", "prefill.env.PATH=/opt/bin").plan
    data = plan.model_dump(mode="json")
    seen = [(path, mutant) for path in leaves(data) for mutant in changed(data, path)]
    assert len(seen) > 150
    assert [path for path, mutant in seen if compare(plan, mutant).same != (plan.digest == mutant.digest)] == []


@pytest.mark.parametrize("name", ["processes", "hosts", "stages"])
def test_an_order_of_its_own_is_a_difference(compiled: Compile, name: str) -> None:
    plan = compiled(PD).plan
    turned = plan.model_copy(update={name: tuple(reversed(getattr(plan, name)))})
    assert compare(plan, plan.model_copy()).same
    assert [change.what for change in compare(plan, turned).whole] in (["order of hosts or processes"], ["stages"])


def test_flags_in_another_order_are_a_difference(compiled: Compile) -> None:
    plan = compiled(CPU).plan
    first = plan.processes[0]
    turned = first.model_copy(update={"argv": (*first.argv[:3], *first.argv[5:], *first.argv[3:5])})
    found = compare(plan, plan.model_copy(update={"processes": (turned, *plan.processes[1:])}))
    (change,) = found.processes.changed["native/n1"]
    assert change.what == "words of the command"


def test_members_that_changed_alike_come_together(compiled: Compile) -> None:
    found = compare(compiled(NAMED).plan, compiled(NAMED, "native.a.port=31000", "engine.cwd=/data").plan)
    groups = [(names, [row[0].what for row in rows]) for names, rows in alike(found.processes.changed)]
    assert groups == [
        (["native/a/n1", "native/a/n2"], ["--port", "cwd", "listens.http"]),
        (["native/b/n3", "native/b/n4"], ["cwd"]),
    ]


def test_a_command_line_is_taken_apart() -> None:
    program, flags = split(
        ["python", "-m", "x", "--port", "1", "-v", "--worker", "a", "--on", "--worker", "b", "--c=d e"]
    )
    assert program == ("python", "-m", "x")
    assert flags == {"--port": ("1", "-v"), "--worker": ("a", "b"), "--on": (), "--c": ("d e",)}
