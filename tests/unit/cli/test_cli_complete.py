"""The Tab key: names, profiles, hosts, selectors and keys, in the shells' own ways; and never a complaint."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sgdeploy
from sgdeploy.cli.complete import join_words_of_bash, words_before
from sgdeploy.deploy.registry import Registry, default_base
from sgdeploy.plan.compile import compile_profile
from tests.unit.cli.conftest import Call, Called

Complete = Callable[..., list[str]]
VARIABLES = ("COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS", "_SGDEPLOY_COMPLETE", "_SGDEPLOY_COMPLETE_SPLIT_OFF")
LIMIT = 60


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:  # set first, so that what the program sets is taken away too
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def ask(call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Called]:
    """Complete the last of some words as bash asks for it."""

    def run(*words: str) -> Called:
        monkeypatch.setenv("_SGDEPLOY_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["sgdeploy", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return call()

    return run


@pytest.fixture
def offered(ask: Callable[..., Called]) -> Complete:
    def run(*words: str) -> list[str]:
        found = ask(*words)
        assert (found.code, found.err) == (0, "")
        return found.out.split()

    return run


@pytest.fixture
def started(home: Path) -> None:
    """Remember a deployment of another name than its profile's file."""
    registry = Registry(default_base({"XDG_STATE_HOME": str(home / "state")}))
    registry.remember(compile_profile(Path("tiny.yaml"), ["name=served"]).plan, home / "work" / "tiny.yaml")


def test_commands_and_options(offered: Complete) -> None:
    assert offered("va") == ["validate"]
    assert offered("up", "--dr") == ["--dry-run"]
    assert "verify" in offered("split-weights", "v")


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("command", ["up", "status", "down", "ask"])
def test_deployments_and_profiles(offered: Complete, command: str) -> None:
    found = offered(command, "")
    assert {"served", "tiny.yaml", "hosts.yaml", "shipped:demo/local"} <= set(found)
    assert not any("overlays" in word for word in found)
    assert offered(command, "ser") == ["served"]
    assert offered(command, "ti") == ["tiny.yaml"]


def test_paths_beyond_this_folder_are_left_to_bash(offered: Complete, home: Path) -> None:
    (home / "work" / "deep").mkdir()
    (home / "work" / "deep" / "my.yaml").write_text("")
    assert offered("plan", "deep/") == []
    assert offered("plan", "dee") == []


@pytest.mark.parametrize("words", [["shipped:demo/l"], ["shipped:demo/local"], ["--set", "a=b", "shipped:demo/l"]])
def test_shipped_profiles_although_bash_parts_words_at_colons(offered: Complete, words: list[str]) -> None:
    parted = [part for word in words for part in re.split("([:=])", word)]
    assert offered("plan", *parted) == ["demo/local"]


def test_all_shipped_profiles(offered: Complete) -> None:
    behind_colon = offered("validate", "shipped", ":")
    assert "kunpeng/deepseek-v3-native" in behind_colon
    assert offered("validate", "shi") == [f"shipped:{name}" for name in behind_colon]


def test_overlays(offered: Complete) -> None:
    assert "rehearsal" in offered("plan", "tiny.yaml", "--overlay", "")
    assert offered("plan", "tiny.yaml", "--overlay", "reh") == ["rehearsal"]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "tiny.yaml", "--host", ""],
        ["plan", "tiny.yaml", "--host", "a"],
        ["plan", "tiny.yaml", "--host", "="],
        ["plan", "tiny.yaml", "--host", "=", "a"],
        ["plan", "--set", "native.port", "=", "31000", "tiny.yaml", "--json", "--host", ""],
    ],
)
def test_hosts_of_the_profile_that_was_named(offered: Complete, words: list[str]) -> None:
    assert offered(*words) == ["a1", "a2"]


def test_hosts_of_a_shipped_profile(offered: Complete) -> None:
    assert offered("plan", "shipped", ":", "demo/local", "--host", "127.0.1.") == [f"127.0.1.{n}" for n in (1, 2, 3)]


@pytest.mark.usefixtures("started")
def test_parts_of_a_profile_and_of_a_deployment(offered: Complete) -> None:
    pd = ["plan", "shipped", ":", "cpu/pd-one-machine", "--only"]
    assert {"prefill", "decode", "router", "127.0.1.1"} <= set(offered(*pd, ""))
    assert offered(*pd, "rou") == ["router"]
    assert offered("down", "served", "--only", "") == ["a1", "a2", "native"]
    assert offered("down", "--only", "nat") == ["native"]  # the only one that is known
    assert offered("split-weights", "--profile", "tiny.yaml", "--instance", "") == ["native"]


@pytest.mark.usefixtures("started")
def test_what_can_be_explained_and_compared(offered: Complete, home: Path) -> None:
    (home / "work" / "plan.json").write_text("{}")
    assert "page-size" in offered("plan", "tiny.yaml", "--explain", "pag")
    assert offered("plan", "tiny.yaml", "--explain", "SGLANG_USE") == ["SGLANG_USE_CPU_ENGINE"]
    assert {"health", "model"} <= set(offered("plan", "tiny.yaml", "--explain", ""))
    assert {"served", "plan.json", "tiny.yaml"} <= set(offered("plan", "tiny.yaml", "--diff", ""))


def test_nothing_is_offered_and_nothing_said_where_something_is_wrong(offered: Complete, home: Path) -> None:
    (home / "work" / "bad.yaml").write_text("version: 1\n")
    damaged = home / "state" / "sgdeploy" / ".controller" / "broken"
    damaged.mkdir(parents=True)
    (damaged / "plan.json").write_text("{")
    for words in (
        ["plan", "bad.yaml", "--host", ""],
        ["plan", "none.yaml", "--explain", ""],
        ["plan", "--host", ""],
        ["down", "broken", "--only", ""],
        ["down", "nobody", "--only", ""],
        ["plan", "shipped", ":", "none", "--host", ""],
    ):
        assert offered(*words) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_files_folders_and_meanings(
    call: Call, monkeypatch: pytest.MonkeyPatch, home: Path, shell: str
) -> None:
    (home / "work" / "deep").mkdir()
    (home / "work" / "deep" / "my.yaml").write_text("")
    monkeypatch.setenv("_SGDEPLOY_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    for line, word, meaning in (
        ("sgdeploy plan d", "deep/", "folder"),
        ("sgdeploy plan deep/", "deep/my.yaml", "file"),
        ("sgdeploy plan tiny.yaml --host ", "a1", "127.0.1.1"),
        ("sgdeploy plan tiny.yaml --host a", "a2", "127.0.1.2"),
        ("sgdeploy plan tiny.yaml --only nat", "native", "unit"),
    ):
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        found = call()
        assert (found.code, found.err) == (0, "")
        assert word in found.out
        assert meaning in found.out


@pytest.mark.parametrize(
    ("words", "joined", "current"),
    [
        (["sgdeploy", "plan", "shipped", ":", "a/b", "--host", "n"], ["plan", "shipped:a/b", "--host"], 4),
        (["sgdeploy", "plan", "shipped", ":"], ["plan"], 2),
        (["sgdeploy", "plan", "--diff", "=", "shipped", ":", "a"], ["plan"], 2),
        (["sgdeploy", "plan", "--set", "a.b", "=", "c", "x"], ["plan", "--set", "a.b=c"], 4),
        (["sgdeploy", "plan", "x"], ["plan"], 2),
        (["sgdeploy", ""], [], 1),
    ],
)
def test_words_that_bash_parted_are_joined(words: list[str], joined: list[str], current: int) -> None:
    environ = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    join_words_of_bash(environ)
    assert words_before(environ) == joined
    assert environ["COMP_CWORD"] == str(current)


def test_a_real_bash_completes(home: Path) -> None:
    """The function that `--show-completion` prints, called the way readline does, by a bash without start files."""
    program = home / "sgdeploy"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sgdeploy "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(_SGDEPLOY_COMPLETE=source_bash sgdeploy)"
    complete -p sgdeploy
    for line in "plan shipped : demo/l" "plan tiny.yaml --host " "validate ti"; do
        IFS=' ' read -r -a words <<<"$line"
        [[ $line != *' ' ]] || words+=('')
        COMP_WORDS=(sgdeploy "${words[@]}") COMP_CWORD=${#words[@]} COMPREPLY=()
        _sgdeploy_completion sgdeploy
        printf '%s.' "${COMPREPLY[*]}"
    done
    """
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", script],
        env={
            "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": str(Path(sgdeploy.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.stderr == ""
    assert "complete -o default -F _sgdeploy_completion sgdeploy" in done.stdout
    assert done.stdout.endswith("demo/local.a1 a2.tiny.yaml.")
