"""`diagnose` over fake hosts: both ends of each log, confirmed on the host; and what `up` and `status` tell of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sgdeploy.deploy import diagnose as diagnose_module
from sgdeploy.deploy import status as status_module
from sgdeploy.deploy.diagnose import diagnose_deployment
from sgdeploy.deploy.status import status
from sgdeploy.deploy.up import up
from sgdeploy.errors import HostFault, RemoteError, StartupError, UsageError
from sgdeploy.remote.base import Json, NodeError
from tests.unit.deploy.fakes import cluster, dead, make_plan, up_options
from tests.unit.deploy.test_down import running

FLAG = "sglang serve: error: unrecognized arguments: --attention-backnd torch_native"
PORT = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
    "25000, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
KILLED = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)."


async def test_a_cause_on_one_of_the_hosts_is_named() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    found = await diagnose_deployment(plan, hosts)
    first = found.diagnosis.first
    assert first is not None
    assert (first.rule, first.process, first.host) == ("unknown-flag", plan.processes[1].id, "h2")
    assert found.unreachable == {}
    assert hosts.nodes["h1"].closed


async def test_who_holds_a_port_is_asked_on_the_host() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].logs = {plan.processes[0].id: [PORT]}
    hosts.nodes["h1"].listening = [{"address": "0.0.0.0", "port": 25000, "pid": 77, "command": "nginx"}]
    first = (await diagnose_deployment(plan, hosts)).diagnosis.first
    assert first is not None
    assert first.cause.endswith("held now by pid 77, nginx")


async def test_whether_a_path_is_there_is_looked_at() -> None:
    plan = make_plan()
    hosts = running(plan)
    line = "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/r1'. Use `repo_type`"
    hosts.nodes["h1"].logs = {plan.processes[0].id: [line]}
    hosts.nodes["h1"].gathered = {"stat": {"/models/r1": {"exists": False}}}
    first = (await diagnose_deployment(plan, hosts)).diagnosis.first
    assert first is not None
    assert first.cause.endswith("there is no /models/r1 on h1")


async def test_the_kernel_is_asked_where_a_process_was_killed() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].logs = {plan.processes[0].id: [KILLED]}
    kernel = "1970-01-01T00:16:35,000000+00:00 Out of memory: Killed process 99 (sglang::schedul) total-vm:1kB"
    stale = kernel.replace("00:16:35", "00:01:00").replace("99", "55")
    hosts.nodes["h1"].gathered = {"commands": {"dmesg": {"rc": 0, "out": f"{stale}\n{kernel}\n", "err": ""}}}
    found = (await diagnose_deployment(plan, hosts)).diagnosis
    assert [(each.rule, each.process) for each in found.findings] == [("oom-kill", plan.processes[0].id)]
    assert "pid 99" in found.findings[0].cause


async def test_a_host_that_does_not_answer_is_named_and_the_others_are_read() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    found = await diagnose_deployment(plan, hosts)
    assert found.unreachable == {"h1": "no route to host"}
    assert found.diagnosis.first is not None
    hosts.down["h2"] = HostFault("h2", "no route to host")
    with pytest.raises(RemoteError):
        await diagnose_deployment(plan, hosts)


async def test_after_down_the_logs_that_stayed_are_read() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    first = (await diagnose_deployment(plan, hosts)).diagnosis.first
    assert first is not None
    assert first.process == plan.processes[1].id


async def test_what_was_told_to_end_has_not_failed() -> None:
    plan = make_plan()
    hosts = running(plan)
    for process in plan.processes:
        node = hosts.nodes[process.host]
        node.living, node.ended, node.told_to_end = set(), {process.id: {"signal": 9}}, 1000.0
        node.logs = {process.id: ["The server is fired up and ready to roll!"]}
    found = (await diagnose_deployment(plan, hosts)).diagnosis
    assert (found.findings, found.notes) == ((), ())
    assert found.stopped == pytest.approx(1000.0, abs=5.0)


async def test_where_no_log_is_it_is_said() -> None:
    plan = make_plan()
    with pytest.raises(UsageError, match="no log of demo"):
        await diagnose_deployment(plan, cluster(plan))


async def test_a_failed_up_tells_the_cause_and_the_rule(no_preflight: None) -> None:
    del no_preflight
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    with pytest.raises(StartupError) as caught:
        await up(plan, hosts, lambda _event: None, up_options())
    (fault,) = caught.value.faults
    assert fault.cause is not None
    assert (fault.cause.rule, fault.cause.process) == ("unknown-flag", plan.processes[1].id)
    assert caught.value.causes == (fault.cause,)
    assert fault.cause.evidence[0].endswith(FLAG)


async def test_a_failed_up_stays_as_it_is_where_no_log_can_be_read(no_preflight: None) -> None:
    del no_preflight
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
    for node in hosts.nodes.values():
        node.refuse["last_run"] = NodeError(node.host.host, "internal", "no", {})
    with pytest.raises(StartupError) as caught:
        await up(plan, hosts, lambda _event: None, up_options())
    assert caught.value.causes == ()
    assert caught.value.faults[0].reason == "exit code 3"


async def test_status_tells_the_cause_of_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "LOOK", 0.3)
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    seen = await status(plan, hosts, {})
    assert [cause.rule for cause in seen.causes] == ["unknown-flag"]


async def test_advice_is_given_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "LOOK", 0.3)
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].logs = {plan.processes[0].id: ["max_total_num_tokens=64, context_len=16384"]}
    assert (await status(plan, hosts, {})).advice == ()
    (found,) = (await status(plan, hosts, {}, advise=True)).advice
    assert (found.process, found.figure) == (plan.processes[0].id, "KV pool of 64 tokens, context length 16384")


async def test_a_host_that_does_not_send_its_logs_in_time_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose_module, "PATIENCE", 0.2)
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].logs = {plan.processes[1].id: [FLAG]}
    answers = hosts.nodes["h1"].call

    async def slow(op: str, args: Mapping[str, Any] | None = None, *, limit: float = 30.0) -> Json:
        if op == "last_run":
            await asyncio.sleep(30)
        return await answers(op, args, limit=limit)

    monkeypatch.setattr(hosts.nodes["h1"], "call", slow)
    first = (await diagnose_deployment(plan, hosts)).diagnosis.first
    assert first is not None
    assert first.host == "h2"
