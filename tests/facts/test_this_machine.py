"""The request, the node helper's real answer, and the parsers fit together on the machine that runs the tests."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sgdeploy.facts.model import HostFacts
from sgdeploy.facts.parse import parse
from sgdeploy.facts.wanted import gather_request
from sgdeploy.node.call import Call
from sgdeploy.node.gather import op_gather
from sgdeploy.node.hello import hello
from sgdeploy.plan.model import PlanHost
from tests.facts.build import a_host, a_plan, a_process, findings


def _look(host: PlanHost, program: str) -> HostFacts:
    plan = a_plan(a_process(argv=(program, "--model-path", "/nothing/here")), hosts=(host,))
    call = Call(1, gather_request(plan, host), lambda _: None)
    return parse("n01", hello(), op_gather(call))


def test_the_helpers_answer_is_understood(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    facts = _look(a_host(address="127.0.1.1", run_dir=f"{tmp_path}/deep/demo/n01"), str(program))
    assert facts.cpus_allowed == tuple(sorted(os.sched_getaffinity(0)))
    assert facts.python >= (3, 7)
    assert facts.uid == os.getuid()
    assert facts.kernel == os.uname().release
    assert facts.page_size == os.sysconf("SC_PAGE_SIZE")
    assert facts.memory_total is not None
    assert facts.memory_total >= (facts.memory_available or 0) > 0
    assert facts.interface_of("127.0.0.1") == "lo"
    assert facts.tools["bash"] is not None
    assert facts.run_dir is not None
    assert (facts.run_dir.writable, facts.run_dir.nearest) == (True, str(tmp_path))
    assert facts.paths[str(tmp_path)].folder
    assert (facts.paths[str(program)].executable, facts.paths["/nothing/here"].exists) == (True, False)


def test_a_run_folder_below_a_file_is_refused_by_name(tmp_path: Path) -> None:
    blocker = tmp_path / "taken"
    blocker.write_text("")
    host = a_host(address="127.0.1.1", run_dir=f"{blocker}/demo/n01", connection="local")
    facts = replace(_look(host, "python"), proxies={})
    told = findings(a_plan(a_process(address="127.0.1.1"), hosts=(host,)), facts)
    assert [it.message for it in told if it.code == "run-dir-kind"] == [
        f"{blocker} is no folder (file); the run folder is {blocker}/demo/n01"
    ]
