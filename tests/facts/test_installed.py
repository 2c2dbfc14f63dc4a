"""Whether the Python of a process has the engine, asked on the machine that runs the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sgdeploy.facts.parse import parse
from sgdeploy.facts.wanted import gather_request
from sgdeploy.node.call import Call
from sgdeploy.node.gather import op_gather
from sgdeploy.node.hello import hello
from sgdeploy.plan.model import Process
from tests.facts.build import a_host, a_plan, a_process, findings, fitting

PACKAGE = "engine_of_this_test"
HINT = "install it there, or set engine.python or engine.activate to where it is"


def a_rank(python: str = sys.executable, **changes: Any) -> Process:
    """Give a rank that runs a package of this test."""
    return a_process(argv=(python, "-m", f"{PACKAGE}.launch_server", "--model-path", "/models/tiny"), **changes)


def told(*processes: Process) -> list[tuple[str, str, str, str]]:
    """Look at this machine, and give what is found about packages."""
    plan = a_plan(*processes, hosts=(a_host(address="127.0.1.1"),))
    call = Call(1, gather_request(plan, plan.hosts[0]), lambda _: None)
    found = findings(plan, parse("n01", hello(), op_gather(call)))
    return [(each.code, each.level, each.message, each.hint) for each in found if each.code == "not-installed"]


def test_a_python_without_the_engine_is_named() -> None:
    (finding,) = told(a_rank(), a_rank(rank=1))
    assert finding == ("not-installed", "warning", f"{sys.executable} has no package {PACKAGE}", HINT)


def test_a_python_that_is_not_there_is_named() -> None:
    ((_, _, message, _),) = told(a_rank("python-of-nobody"))
    assert message == f"there is no python-of-nobody in PATH to run {PACKAGE}"


def test_it_is_looked_for_in_the_environment_of_the_process(tmp_path: Path) -> None:
    """What is activated puts programs and modules in reach, and takes no word of ours for its own."""
    for folder in ("bin", f"modules/{PACKAGE}"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin/python-of-env").symlink_to(sys.executable)
    (tmp_path / "bin/activate").write_text(f'[[ $# == 0 ]] && PATH={tmp_path}/bin:$PATH\necho "active"\n')
    modules = str(tmp_path / "modules")
    for reach in ({"env": {"PYTHONPATH": modules}}, {"env_prepend": {"PYTHONPATH": (modules,)}}):
        assert told(a_rank("python-of-env", activate=(f"venv:{tmp_path}",), **reach)) == []
        ((_, _, message, _),) = told(a_rank("python-of-env", **reach))
        assert message.startswith("there is no python-of-env in PATH")
    ((_, _, message, _),) = told(a_rank("python-of-env", activate=(f"setvars:{tmp_path}/bin/activate",)))
    assert message.endswith(f"has no package {PACKAGE}")


def test_a_host_that_said_nothing_is_not_blamed() -> None:
    assert findings(a_plan(a_rank()), fitting()) == []
