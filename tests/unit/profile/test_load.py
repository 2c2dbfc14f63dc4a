"""The draft as a whole: files that are no files, shipped profiles, secrets, and input of any kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgdeploy.paths import data_dir
from sgdeploy.problems import Problem
from sgdeploy.profile.load import Draft, draft
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.source import MAX_BYTES

HEAD = "version: 1\nname: x\ntopology: native\nplatform: cpu\nmodel: {path: /m}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, *sets: str) -> Draft:
    Path("p.yaml").write_text(HEAD + text)
    return draft(Path("p.yaml"), sets)


def told(one: Draft) -> list[str]:
    return [f"{problem.place}: {problem.message}" for problem in one.problems]


def test_a_missing_profile_is_told_with_a_guess() -> None:
    Path("dsv3.yaml").write_text(HEAD)
    one = draft(Path("dsv.yaml"))
    assert told(one) == ["dsv.yaml: there is no file dsv.yaml"]
    assert one.problems[0].hint == "did you mean dsv3.yaml?"
    assert (one.tree, one.profile, one.files) == ({}, None, ())


def test_a_missing_folder_is_told() -> None:
    one = draft(Path("no/where/p.yaml"))
    assert told(one) == ["no/where/p.yaml: there is no file no/where/p.yaml"]
    assert one.problems[0].hint is not None
    assert one.problems[0].hint.startswith("there is no folder ")


def test_a_folder_is_no_profile() -> None:
    Path("p").mkdir()
    assert told(draft(Path("p"))) == ["p: p is a folder, not a file"]


def test_the_system_s_own_reason_is_told() -> None:
    name = "x" * 300
    assert told(draft(Path(name))) == [f"{name}: cannot read {name}: {os.strerror(36)}"]


def test_a_huge_file_is_refused_unread() -> None:
    with Path("p.yaml").open("wb") as file:
        file.truncate(MAX_BYTES * 1000)
    message = "p.yaml: p.yaml is longer than 8 MiB; this is no profile, inventory or list of hosts"
    assert told(draft(Path("p.yaml"))) == [message]


def test_of_a_file_that_is_no_text_no_byte_is_shown() -> None:
    Path("p.yaml").write_bytes(b"\x7fELF\x02\x01\x01\x00\x00\xd0\xff\x00")
    (problem,) = draft(Path("p.yaml")).problems
    assert problem.message == "p.yaml is no text: it holds NUL bytes, as programs, archives and weights do"
    assert problem.place is not None
    assert problem.place.text == ""


def test_an_endless_device_is_refused() -> None:
    assert "longer than 8 MiB" in told(draft(Path("/dev/zero")))[0]


def test_missing_overlays_and_parents_are_all_told_and_prove_no_key_missing() -> None:
    Path("p.yaml").write_text("extends: [a.yaml, b.yaml]\nnative: {prt: 1}\n")
    one = draft(Path("p.yaml"), ["name=X"], [Path("o.yaml")])
    assert sorted(told(one)) == [
        '--set:1:6: `name` cannot be the text "X"',
        "o.yaml: there is no file o.yaml",
        "p.yaml:1:11: there is no file a.yaml",
        "p.yaml:1:19: there is no file b.yaml",
        "p.yaml:2:10: unknown key `prt` in `native`",
    ]


def test_shipped_profiles_and_overlays_are_found_by_name() -> None:
    one = draft(Path("shipped:kunpeng/deepseek-v3-native.yaml"), overlays=[Path("rehearsal")])
    assert one.profile is not None
    shipped = data_dir("profiles")
    assert one.files[:2] == (shipped / "kunpeng/deepseek-v3-native.yaml", shipped / "overlays/rehearsal.yaml")


def test_a_profile_may_extend_a_shipped_one() -> None:
    Path("p.yaml").write_text("extends: shipped:kunpeng/deepseek-v3-native.yaml\nname: mine\n")
    one = draft(Path("p.yaml"))
    assert one.profile is not None
    assert one.profile.name == "mine"


def test_an_unknown_shipped_profile_is_guessed() -> None:
    Path("p.yaml").write_text("extends: shipped:kunpeng/deepseek-v3-nativ.yaml\n")
    problem = draft(Path("p.yaml")).problems[0]
    assert (str(problem.place), problem.hint) == ("p.yaml:1:10", "did you mean deepseek-v3-native.yaml?")


def test_editors_may_name_the_schema() -> None:
    one = read("$schema: sgdeploy.schema.json\nnative: {hosts: a}\n")
    assert told(one) == []
    assert "$schema" not in one.tree


def test_secrets_are_references() -> None:
    one = read(
        'native: {hosts: a, flags: {api-key: "${env:KEY}"},\n'
        '         env: {HF_TOKEN: "${env:HF}", B: "$${env:X}", C: "${HOME}"}}\n'
    )
    assert told(one) == []
    assert one.tree["native"]["flags"] == {"api-key": Secret("KEY")}
    assert one.tree["native"]["env"] == {"HF_TOKEN": Secret("HF"), "B": "${env:X}", "C": "${HOME}"}
    assert one.profile is not None


def test_the_value_of_a_secret_is_nowhere_in_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hunter2-very-secret")
    one = read('native: {hosts: a, flags: {api-key: "${env:KEY}", x: "a${env:KEY}"}}\n')
    assert len(one.problems) == 1
    assert "hunter2" not in repr(one)
    assert "hunter2" not in repr(one.places.origins(("native", "flags", "api-key")))


def test_a_mapping_that_looks_like_a_secret_is_none() -> None:
    one = read("native: {hosts: a, flags: {x: {name: KEY}}}\n")
    assert one.profile is not None
    assert one.tree["native"]["flags"] == {"x": {"name": "KEY"}}


def test_places_of_keys_that_are_not_there() -> None:
    one = read("native: {hosts: a}\n")
    for path, where in [
        (("native", "parallel", "tp"), "p.yaml:6:1"),
        (("health", "stall"), "p.yaml:1:1"),
        (("native", "hosts"), "p.yaml:6:17"),
        ((), "p.yaml:1:1"),
    ]:
        assert str(one.places.place(Problem("x", path=path)).place) == where
    assert str(one.places.place(Problem("x", path=("native", "hosts"), at="key")).place) == "p.yaml:6:10"
    assert one.places.value(("native", "nothing")) is None
    assert str(one.places.key(("native",))) == "p.yaml:6:1"


def test_a_problem_with_a_place_keeps_it() -> None:
    one = read("native: {hosts: a}\n")
    placed = one.places.place(Problem("x", path=("native",)))
    assert one.places.place(placed) is placed


def test_durations_arrive_as_seconds() -> None:
    one = read("native: {hosts: a}\nhealth: {timeout: 1h30m, stall: 90, grace: 500ms}\n")
    assert one.profile is not None
    health = one.profile.health
    assert (health.timeout, health.stall, health.grace) == (5400.0, 90.0, 0.5)


PIECES = (
    *("version: 1", "name: x", "native:", "  hosts: ", "a[1-2", "  - ", "{", "}", "[", "]", "'", '"', "\t", "\n", "\n"),
    *("&a ", "*a", "<<: ", "!!int ", "${env:X}", "extends: p.yaml", "extends: [q.yaml]", "inventory: ", "groups: "),
    *(
        ": ",
        "|",
        ">",
        "---",
        "#",
        "\\",
        "é",
        "\x00",
        "\u2028",
        "\ud7ff",
        "null",
        "true",
        "0x1",
        "flags: {a: ",
        "env: {A: ",
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_input_gives_problems_inside_its_files_and_never_an_exception(text: str) -> None:
    Path("p.yaml").write_text(text, encoding="utf-8", newline="")
    one = draft(Path("p.yaml"))
    assert one.profile is not None or one.problems
    for problem in one.problems:
        assert problem.place is not None
        assert problem.place.file in {"p.yaml", "q.yaml"} or problem.place.file.startswith(("/", ".."))
        assert problem.place.column <= len(problem.place.text) + 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_survived(data: bytes) -> None:
    Path("p.yaml").write_bytes(data)
    assert draft(Path("p.yaml")).problems
