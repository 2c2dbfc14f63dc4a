"""Where values come from: every flag and variable of every shipped plan is explained, and by what really decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgdeploy.paths import data_dir
from sgdeploy.plan.argv import split
from sgdeploy.plan.compare import shown
from sgdeploy.plan.compile import Compiled, compile_profile
from sgdeploy.plan.explain import derived
from sgdeploy.plan.explain.door import explain
from sgdeploy.plan.explain.inquiry import Inquiry
from sgdeploy.plan.explain.said import Answer, Explanation
from sgdeploy.plan.flags import ENGINE_RULES, ROUTER_RULES
from sgdeploy.plan.model import Process
from sgdeploy.plan.part import Part
from sgdeploy.problems import Problem
from tests.unit.plan.conftest import CPU, KUNPENG, NAMED, PD, Compile

PROFILES = sorted(file for file in data_dir("profiles").rglob("*.yaml") if file.parent.name != "overlays")
EACH = pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)


def ask(compiled: Compiled, word: str, part: Part | None = None) -> list[Explanation]:
    found = explain(compiled, word, part)
    assert not isinstance(found, Problem), found.message
    return found


def only(compiled: Compiled, word: str) -> Answer:
    """Explain what has one meaning and one reason."""
    (explanation,) = ask(compiled, word)
    (answer,) = explanation.answers
    return answer


def words(answer: Answer) -> list[tuple[str, Any, str]]:
    return [(said.standing, said.value, f"{said.who} {said.place or '-'}") for said in answer.said]


def values_of(found: list[Explanation], program: str) -> dict[str, Any]:
    """Give label → explained value."""
    return {
        label: value
        for explanation in found
        if explanation.program.partition(" ")[0] in {program, ""}
        for answer in explanation.answers
        for value, labels in answer.values
        for label in labels
    }


def program_of(process: Process) -> str:
    return "router" if process.role == "router" else "engine"


def parts(compiled: Compiled) -> list[Part]:
    """Give a host of each unit: all that a plan has, without all its ranks."""
    hosts = {process.unit: process.host for process in compiled.plan.processes}
    return [Part(host=host) for host in dict.fromkeys(hosts.values())]


@EACH
def test_every_flag_of_a_plan_is_explained_by_what_decides(file: Path) -> None:
    compiled = compile_profile(file)
    for part in parts(compiled):
        processes = part.processes(compiled.plan)
        lines = {process.label: split(process.argv)[1] for process in processes}
        for name in {name for line in lines.values() for name in line}:
            found = ask(compiled, name, part)
            assert all(answer.said for each in found for answer in each.answers)
            for process in processes:
                value = values_of(found, program_of(process)).get(process.label)
                assert (value is None) == (name not in lines[process.label])
            for answer in (answer for each in found for answer in each.answers):
                held(answer, {process.label: " ".join(process.argv) for process in processes})


def held(answer: Answer, lines: dict[str, str]) -> None:
    """Find the word that holds on the command lines of those whom it is said to hold for."""
    said = answer.said[0]
    if said.standing == "holds" and not isinstance(said.value, (bool, dict, list)) and said.value is not None:
        for value, labels in answer.values:
            assert str(said.value) == value
            assert all(value in lines[label] for label in labels)


@EACH
def test_every_variable_of_a_plan_is_explained_by_what_decides(file: Path) -> None:
    compiled = compile_profile(file)
    for part in parts(compiled):
        processes = part.processes(compiled.plan)
        for name in {name for process in processes for name in (*process.env, *process.env_prepend)}:
            found = ask(compiled, name, part)
            values = values_of(found, "")
            for process in processes:
                assert (values.get(process.label) is None) == (name not in {**process.env, **process.env_prepend})
                assert name not in process.env or values[process.label] == shown(process.env[name])
            for answer in (answer for each in found for answer in each.answers):
                assert answer.said[0].standing == "holds"
                plain = {True: "1", False: "0"}.get(answer.said[0].value, answer.said[0].value)
                assert all(value is None or str(plain) in value for value, _ in answer.values)


def test_every_flag_that_the_plan_owns_says_what_it_follows_from() -> None:
    assert set(derived.ENGINE_FLAGS) == set(derived.TOKENIZER_FLAGS) == set(ENGINE_RULES.owned)
    assert set(derived.ROUTER_FLAGS) == set(ROUTER_RULES.owned)
    assert set(derived.FIELDS) - {"program"} <= set(Process.model_fields)


def test_what_they_follow_from_are_keys_of_the_schema(compiled: Compile) -> None:
    inquiry = Inquiry(compiled(PD), Part())
    for unit in inquiry.units.values():
        paths = [inquiry.path(key, unit) for keys in unit.owned.values() for key in keys if not key.startswith("@")]
        assert [path for path in paths if not inquiry.schema.has(path)] == []
    rank = inquiry.units["prefill"]
    paths = [inquiry.path(key, rank) for keys in derived.FIELDS.values() for key in keys if not key.startswith("@")]
    assert [path for path in paths if not inquiry.schema.has(path)] == []


def test_files_overlays_and_the_command_line_in_their_order(compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(f"{KUNPENG}  flags: {{page_size: 16}}\n")
    (tmp_path / "over.yaml").write_text("native: {flags: {page-size: 128}}\n")
    text = "extends: base.yaml\nengine:\n  flags:\n    page-size: 32\n"
    made = compiled(text, "native.flags.page-size=256", overlays=[tmp_path / "over.yaml"])
    answer = only(made, "page-size")
    assert [(value, len(labels)) for value, labels in answer.values] == [("256", 256)]
    assert words(answer) == [
        ("holds", 256, "native.flags.page-size --set:1:14"),
        ("overridden", 128, f"native.flags.page-size {tmp_path}/over.yaml:1:18"),
        ("overridden", 16, f"native.flags.page-size {tmp_path}/base.yaml:12:11"),
        ("overridden", 32, f"engine.flags.page-size {tmp_path}/profile.yaml:4:5"),
        ("overridden", 64, "platform kunpeng-920f -"),
    ]
    for spelling in ("--page-size", "page_size", "engine.flags.page-size", "native.flags.page_size"):
        assert only(made, spelling) == answer


def test_what_was_taken_away_is_told(compiled: Compile) -> None:
    answer = only(compiled(KUNPENG, "engine.flags.max-prefill-tokens=null"), "max-prefill-tokens")
    assert answer.values[0][0] is None
    assert [(said.standing, said.value) for said in answer.said][:2] == [("holds", None), ("overridden", 4096)]
    gone = only(compiled(CPU, "native.env.SGLANG_USE_CPU_ENGINE=null"), "SGLANG_USE_CPU_ENGINE")
    assert gone.values == ((None, ("native/n1", "native/n2")),)
    assert [(said.who, said.value) for said in gone.said] == [
        ("native.env.SGLANG_USE_CPU_ENGINE", None),
        ("platform cpu", "1"),
    ]


def test_a_flag_that_nobody_sets_is_left_to_the_engine(compiled: Compile) -> None:
    answer = only(compiled(CPU), "page-size")
    assert (answer.values[0][0], answer.said[0].who) == (None, "engine 0.5.23")
    assert answer.said[0].note == "not passed; the engine decides"
    defaulted = only(compiled(CPU, "engine.flags.log-level=debug"), "log-level")
    assert [(said.who, said.value) for said in defaulted.said][1:] == [("engine 0.5.23", "info")]


def test_instances_that_differ_have_answers_of_their_own(compiled: Compile) -> None:
    made = compiled(NAMED, "native.b.flags.page-size=32", "engine.flags.page-size=64")
    (explanation,) = ask(made, "page-size")
    assert [(each.values, each.said[0].who) for each in explanation.answers] == [
        ((("64", ("native/a/n1", "native/a/n2")),), "engine.flags.page-size"),
        ((("32", ("native/b/n3", "native/b/n4")),), "native.b.flags.page-size"),
    ]
    (part,) = ask(made, "page-size", Part(host="n4"))
    assert [answer.values for answer in part.answers] == [(("32", ("native/b/n4",)),)]


def test_values_that_the_plan_computes_name_their_keys(compiled: Compile) -> None:
    made = compiled(CPU, "native.port=31000")
    assert words(only(made, "--port"))[0][1:] == (31000, "native.port --set:1:8")
    met = only(made, "dist-init-addr")
    assert (met.values[0][0], [said.who for said in met.said]) == (
        "10.0.1.1:25000",
        ["native.rendezvous.port", "native.hosts", "native.leader"],
    )
    assert met.said[0].note.startswith("not set; Default: the platform's")
    (address,) = (each for each in ask(made, "host") if each.kind == "flag")
    assert [(answer.values, answer.said[0].who) for answer in address.answers] == [
        ((("10.0.1.1", ("native/n1",)),), "inventory.groups.pair[0].address"),
        ((("10.0.1.2", ("native/n2",)),), "inventory.groups.pair[1].address"),
    ]


def test_the_platform_names_the_settings_and_sizes_that_it_follows(compiled: Compile) -> None:
    made = compiled(KUNPENG, "platform_settings.sglang_path=/x", "platform_settings.mtp={}")
    for word, keys in (
        ("SGLANG_PATH", ["platform_settings.sglang_path"]),
        ("speculative-algorithm", ["platform_settings.mtp"]),
        ("TP_SIZE", ["native.parallel.tp"]),
        ("WORLD_SIZE", ["native.hosts"]),
        ("SGLANG_ENABLE_NUMA_DUPLICATION", ["engine.numa_copies"]),
        ("KUPL_PATH", []),
    ):
        said = only(made, word).said[0]
        assert (said.who, [cause.key for cause in said.causes]) == ("platform kunpeng-920f", keys)
    assert only(made, "SPT_NOENV").said[0].who == "sgdeploy"


def test_a_search_path_keeps_what_the_platform_puts_there(compiled: Compile) -> None:
    answer = only(compiled(KUNPENG, "engine.env.CPATH=/mine", "native.env.CPATH=/ours"), "CPATH")
    assert answer.values[0][0] == "/ours:/opt/kupl/include"
    assert [(said.standing, said.value) for said in answer.said] == [
        ("holds", "/ours"),
        ("overridden", "/mine"),
        ("holds", "/opt/kupl/include"),
    ]


def test_the_network_card_comes_from_the_inventory(compiled: Compile) -> None:
    text = KUNPENG.replace("{ssh: {user: root}}", "{defaults: {nic: eth7}}")
    said = only(compiled(text), "GLOO_SOCKET_IFNAME").said
    assert [(one.standing, one.value) for one in said] == [("holds", "eth7")]
    assert [cause.key for cause in said[0].causes] == ["inventory.defaults.nic"]


def test_the_router_and_what_it_takes_over(compiled: Compile) -> None:
    made = compiled(PD, "router.flags.request-timeout-secs=99", "router.policy=random")
    assert words(only(made, "request-timeout-secs"))[0][:2] == ("holds", 99)
    interval = only(made, "health-check-interval-secs")
    assert [(said.who, said.value) for said in interval.said] == [("sgdeploy", 10), ("router 0.3.2", 60)]
    start = only(made, "worker-startup-timeout-secs").said[0]
    assert (start.who, start.value) == ("health.timeout", 2700)
    (policy,) = (each for each in ask(made, "policy") if each.program)
    assert [said.who for said in policy.answers[0].said] == ["router.policy"]


def test_keys_of_the_profile_with_their_defaults(compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(CPU)
    made = compiled("extends: base.yaml\nhealth: {stall: 5m}\nname: other\n")
    found = {each.name: each.answers[0] for each in ask(made, "health")}
    assert list(found) == ["health.stall", "health.timeout", "health.grace"]
    assert words(found["health.stall"]) == [("holds", "5m", f"health.stall {tmp_path}/profile.yaml:2:10")]
    assert words(found["health.timeout"]) == [("holds", 2700.0, "default of sgdeploy -")]
    (name,) = ask(made, "name")
    assert [value for _, value, _ in words(name.answers[0])] == ["other", "tiny"]
    (threads,) = ask(made, "platform_settings.omp_threads")
    assert threads.about.startswith("OpenMP threads of each rank")
    (nic,) = ask(made, "inventory.defaults.nic")
    assert words(nic.answers[0]) == [("holds", None, "default of sgdeploy -")]


def test_fields_of_processes(compiled: Compile) -> None:
    made = compiled(KUNPENG, "platform_settings.layout.core_offset=3")
    (cores,) = ask(made, "cores")
    assert (len(cores.answers[0].values), cores.answers[0].values[1][0]) == (16, [41])
    said = cores.answers[0].said[-1]
    assert (said.who, [cause.key for cause in said.causes]) == (
        "platform kunpeng-920f",
        ["platform_settings.layout.core_offset"],
    )
    (program,) = ask(made, "program")
    assert len(program.answers[0].values) == 16


def test_a_secret_stays_a_name(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2")
    made = compiled(CPU, "engine.flags.api-key=${env:MY_KEY}", "native.env.TOKEN=${env:MY_KEY}")
    for word in ("api-key", "TOKEN", "engine"):
        found = ask(made, word)
        assert "hunter2" not in str([each.to_json() for each in found])
    assert only(made, "api-key").values[0][0] == only(made, "TOKEN").values[0][0] == "${env:MY_KEY}"


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("page-sise", "`page-sise` is no flag, no variable and no key of this profile", "did you mean page-size?"),
        ("SGLANG_USE_CPU_ENGIN", "`SGLANG_USE_CPU_ENGIN` is no flag", "did you mean SGLANG_USE_CPU_ENGINE?"),
        ("--zzz", "`--zzz` is no flag", "`sgdeploy plan PROFILE --host HOST` shows all that a host gets"),
        ("native.prot", "`native` has no key `prot`", "did you mean port?"),
        ("nativ.port", "this profile has no key `nativ`", "did you mean native?"),
        ("health.zzz", "`health` has no key `zzz`", "there are: grace, stall, timeout"),
        ("engine.flags.zzz", "`engine.flags.zzz` is no flag", "`sgdeploy plan PROFILE --host HOST`"),
        ("omp_threads", "`omp_threads` is no flag", "there is `platform_settings.omp_threads`"),
        ("a b", "`a b` is no flag", "`sgdeploy plan"),
        ("", "`` is no flag", "`sgdeploy plan"),
    ],
)
def test_words_that_mean_nothing(compiled: Compile, word: str, message: str, hint: str) -> None:
    found = explain(compiled(CPU), word)
    assert isinstance(found, Problem)
    assert found.message.startswith(message)
    assert found.hint is not None
    assert found.hint.startswith(hint)


def test_the_folder_of_weights_of_one_instance(compiled: Compile) -> None:
    """Its own key decides, also about a variable of the platform that holds the folder."""
    plan = compiled(PD, "decode.model_path=/split")
    said = [each for answer in ask(plan, "model-path")[0].answers for each in words(answer)]
    assert any("decode.model_path" in who for _, _, who in said), said
    assert any("model.path" in who for _, _, who in said), said
