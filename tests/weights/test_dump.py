"""``dump-manifest``, with stand-ins for the engine's own Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sgdeploy.deploy.dump import manifest
from tests.weights.conftest import Call

ENGINE = """#!{python}
import json, os, pathlib, sys, tempfile, time
folder = pathlib.Path(os.environ["SGDEPLOY_DUMP"])
(folder / "words").write_text(json.dumps(sys.argv[1:]))
{body}
"""
SAYS = """
for rank in range(2):
    body = {"class": "LlamaForCausalLM", "params": {"model.norm.weight": ["bfloat16", [64]]}}
    (folder / f"pp0-tp{rank}.json").write_text(json.dumps(body))
pathlib.Path(os.environ["WORDS"]).write_text((folder / "words").read_text())
pathlib.Path(os.environ["WORDS"] + "-temporary").write_text(tempfile.gettempdir())
(folder / "done").touch()
time.sleep(600)
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_leaks: None) -> Path:
    """Give the path of a stand-in; its text is written by the test."""
    del no_leaks
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    return tmp_path / "python"


def stand_in(path: Path, body: str) -> Path:
    path.write_text(ENGINE.format(python=sys.executable, body=body))
    path.chmod(0o755)
    return path


def test_what_ranks_say_becomes_a_manifest(engine: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "m.json"
    found = call("dump-manifest", "--python", stand_in(engine, SAYS), "--out", out, "--", "--model-path", "/ckpt")
    assert found.code == 0, found.err
    assert found.out == f"1 parameter of LlamaForCausalLM on 2 ranks written to {out}\n"
    body = json.loads(out.read_text())
    assert body["ranks"] == ["pp0-tp0", "pp0-tp1"]
    assert (body["identical_on_all_ranks"], list(body["params"])) == (True, ["pp0-tp0"])
    script, *flags = json.loads((tmp_path / "words").read_text())
    assert Path(script).name == "dump.py"
    assert flags == ["--model-path", "/ckpt", "--load-format", "dummy"]
    temporary = Path((tmp_path / "words-temporary").read_text())
    assert temporary.name.startswith("sgdeploy-dump-")
    assert not temporary.exists()


def test_an_engine_that_fails_shows_its_log(engine: Path, call: Call) -> None:
    stand_in(engine, 'print("no such model"); sys.exit(3)')
    found = call("dump-manifest", "--python", engine, "--", "--model-path", "/ckpt")
    assert found.code == 6
    assert "the engine did not come as far as building its model" in found.err
    assert "exit code 3" in found.err
    assert "| no such model" in found.err


def test_an_engine_that_never_says_anything(engine: Path, call: Call) -> None:
    stand_in(engine, "time.sleep(600)")
    found = call("dump-manifest", "--python", engine, "--timeout", "1s", "--", "--model-path", "/ckpt")
    assert found.code == 6
    assert "no manifest within 1 s" in found.err


def test_no_such_python(engine: Path, call: Call) -> None:
    found = call("dump-manifest", "--python", engine, "--", "--model-path", "/ckpt")
    assert (found.code, "cannot be started: No such file" in found.err) == (6, True)


def test_ranks_that_differ_are_all_listed() -> None:
    ranks = {f"pp{stage}-tp{rank}": {"class": "C", "params": {"a": stage}} for rank in range(2) for stage in range(11)}
    found = manifest(ranks)
    assert found["identical_on_all_ranks"] is False
    assert list(found["params"])[:3] == ["pp0-tp0", "pp0-tp1", "pp1-tp0"]
    assert list(found["params"])[-1] == "pp10-tp1"
