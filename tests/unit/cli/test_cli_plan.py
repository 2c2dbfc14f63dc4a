"""`plan`: compared with others, of a part, with templates of one's own; what makes no sense is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgdeploy.deploy.registry import Registry, default_base
from sgdeploy.plan.compile import compile_profile
from tests.unit.cli.conftest import Call

CHANGED = ("--set", "native.port=31000")


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@pytest.fixture
def started(home: Path, work: Path) -> None:
    """Remember the profile as started, as `up` does."""
    registry = Registry(default_base({"XDG_STATE_HOME": str(home / "state")}))
    registry.remember(compile_profile(work / "tiny.yaml").plan, work / "tiny.yaml")


@pytest.mark.usefixtures("started")
def test_the_same_ends_with_0_and_another_with_1(call: Call) -> None:
    same = call("plan", "tiny.yaml", "--diff", "tiny")
    assert (same.code, same.out) == (0, "no difference: tiny.yaml plans what tiny as it was started does\n")
    found = call("plan", "tiny.yaml", *CHANGED, "--diff", "tiny")
    assert (found.code, found.err) == (1, "")
    assert "  front_door.port  30000 → 31000\n" in found.out
    assert "  native/a[1-2]\n    --port        30000 → 31000\n" in found.out


@pytest.mark.usefixtures("started")
def test_a_difference_for_programs(call: Call) -> None:
    found = call("plan", "tiny.yaml", *CHANGED, "--diff", "tiny", "--host", "a2", "--json")
    data = json.loads(found.out)
    assert (found.code, data["same"], data["deployment"]) == (1, False, [])
    assert data["before"]["source"] == "tiny as it was started"
    assert data["after"]["source"] == "tiny.yaml as changed here"
    assert list(data["processes"]["changed"]) == ["native/a2"]
    assert data["processes"]["changed"]["native/a2"][0] == {"what": "--port", "before": "30000", "after": "31000"}


def test_another_profile_and_a_file_of_a_plan(call: Call, work: Path) -> None:
    assert call("plan", "tiny.yaml", *CHANGED, "--diff", "tiny.yaml").code == 1
    (work / "plan.json").write_text(call("plan", "tiny.yaml", *CHANGED, "--json").out)
    assert call("plan", "tiny.yaml", *CHANGED, "--diff", "plan.json").code == 0
    assert call("plan", "tiny.yaml", "--diff", "plan.json").code == 1
    (work / "bad.yaml").write_text("version: 1\n")
    assert "bad.yaml:1:1: error" in call("plan", "tiny.yaml", "--diff", "bad.yaml").err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read plan.json: No such file or directory"),
        ('{"version": 1,\n', "plan.json:2:1: no JSON: "),
        ("[1]", "plan.json holds no plan"),
        ('{"version": 2}', "plan.json holds no plan that this sgdeploy reads: "),
        ("edited", "plan.json holds no plan that this sgdeploy reads: plan digest sha256:"),
    ],
)
def test_a_file_that_holds_no_plan(call: Call, work: Path, text: str | None, message: str) -> None:
    if text == "edited":
        text = call("plan", "tiny.yaml", "--json").out.replace("30000", "30001")
    if text is not None:
        (work / "plan.json").write_text(text)
    found = call("plan", "tiny.yaml", "--diff", "plan.json")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error: {message}")
    assert text is None or "hint: it should hold what `sgdeploy plan PROFILE --json` writes" in found.err


def test_a_value_is_explained(call: Call) -> None:
    found = call("plan", "tiny.yaml", *CHANGED, "--explain", "port", "--host", "a1")
    assert (found.code, found.err) == (0, "")
    assert found.out == (
        "--port of engine 0.5.23  (set `port` of the instance)\n"
        "  31000 in 1 process: native/a1\n"
        "    from  --set no. 1  native.port: 31000\n"
        "    from  -            engine.launch  "
        "(not set; One process per rank, or one per node (python -m sglang.launch_server).)\n"
    )
    (data,) = json.loads(call("plan", "tiny.yaml", "--explain", "max-total-tokens", "--json").out)
    assert (data["kind"], data["name"], data["program"]) == ("flag", "--max-total-tokens", "engine 0.5.23")
    (answer,) = data["answers"]
    assert answer["values"] == [{"value": "8192", "processes": ["native/a1", "native/a2"]}]
    assert [answer["said"][0][key] for key in ("who", "file", "line", "column")] == [
        *("engine.flags.max-total-tokens", "tiny.yaml"),
        *(7, 41),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explain", "prot"], "hint: did you mean port?"),
        (["--explain", "native.prot"], "`native` has no key `prot`"),
        (["--explain", "port", "--host", "zzz"], "hint: its hosts: a1, a2"),
        (["--explain", "port", "--diff", "tiny.yaml"], "--explain and --diff contradict each other"),
        (["--diff", "nobody"], "no deployment named nobody is known on this machine"),
        (["--only", "nativ"], "hint: did you mean `native`?"),
        (["--only", "router"], "hint: units: native; hosts by name or glob"),
        (["--host", "zzz"], "hint: its hosts: a1, a2"),
        (["--out", "x", "--host", "a1"], "--out writes the whole plan"),
        (["--out", "x", "--diff", "tiny.yaml"], "--diff and --out contradict each other"),
        (["--templates", "."], "hint: add --out DIR"),
        (["--out", "x", "--templates", "none"], "none is not a folder of templates"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Call, work: Path, words: list[str], message: str) -> None:
    found = call("plan", "tiny.yaml", *words)
    assert (found.code, found.out) == (2, "")
    assert message in found.err
    assert not (work / "x").exists()


def test_a_part_that_is_empty_is_named(call: Call, work: Path) -> None:
    text = (work / "tiny.yaml").read_text().partition("native:\n")[0]
    units = "native:\n  a: {hosts: [a1]}\n  b: {hosts: [a2], rendezvous: {port: 26000}}\n"
    (work / "two.yaml").write_text(text + units)
    assert "native/b/a2:" in call("plan", "two.yaml", "--only", "native/b").out
    found = call("plan", "two.yaml", "--only", "native/a", "--host", "a2")
    assert (found.code, "nothing of native/a runs on a2" in found.err) == (2, True)


def test_templates_of_ones_own_make_the_scripts(call: Call, work: Path) -> None:
    folder = work / "mine"
    folder.mkdir()
    (folder / "process.sh.j2").write_text("#!/usr/bin/env bash\n# site: {{ process.id }}\n")
    found = call("plan", "tiny.yaml", "--out", "scripts", "--templates", "mine")
    assert found.code == 0
    assert (work / "scripts/a1/scripts/native-a1.sh").read_text() == "#!/usr/bin/env bash\n# site: tiny/native/a1\n"
    assert "start" in (work / "scripts/a1/start.sh").read_text()


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("tiny", "tiny is the name of a deployment; its profile is "),
        ("local", "did you mean shipped:demo/local?"),
        ("hosst", "did you mean hosts.yaml?"),
        ("zzzzzz", "give the path of a file that ends in .yaml, or shipped:PATH"),
    ],
)
@pytest.mark.usefixtures("started")
def test_a_word_that_is_no_profile(call: Call, word: str, hint: str) -> None:
    found = call("plan", word)
    assert found.code == 2
    assert found.err.startswith(f"error: there is no profile {word}\nhint: {hint}")
