"""`history` and `rollback` with real files on the "hosts"."""

from __future__ import annotations

import json

import pytest

from tests.local.kit import NAME, Ground

pytestmark = pytest.mark.timeout(300)


def test_back_to_what_was_ready_also_after_down_and_from_another_machine(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    first = ground.digest()
    ground.well("up", profile, "--set", "native.b.flags.page-size=32", "--yes")
    second = ground.digest()
    assert first != second
    before = ground.pids()

    refused = ground.run("rollback", NAME)
    assert refused.returncode == 8
    assert "--page-size  32 → nothing" in refused.stderr
    events = ground.well("rollback", NAME, "--yes")
    assert events.one("outcome")["outcome"] == "ready"
    assert ground.digest() == first
    after = ground.pids()
    assert {name for name, pid in after.items() if before[name] != pid} == {f"native/b/{ground.host(3)}"}

    ground.well("down", NAME)
    ground.forget()
    told = json.loads(ground.run("history", profile, "--json").stdout)
    assert [entry["plan"] for entry in told if entry["ready"]] == [each[:16] for each in (first, second, first)]
    assert told[-1]["what"] == "down"
    shown = ground.run("history", profile, "-n", "1").stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ["WHAT", "down"]
    ground.well("rollback", profile, "--to", second[:8])
    assert ground.digest() == second
    assert ground.run("diff", profile, "--set", "native.b.flags.page-size=32").returncode == 0
