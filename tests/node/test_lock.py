"""One writer at a time, and a lock that cannot go stale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.deployment import Deployment
from tests.node.wire import Helper, RefusedError, Stream, patched, wait_for

Helpers = Callable[..., Helper]
ME = {"user": "me", "host": "laptop", "pid": 12, "command": "sgdeploy up x.yaml", "since": 1.0}
YOU = {**ME, "user": "you"}


def test_a_second_controller_is_refused_and_told_who_holds_it(helpers: Helpers, deployment: Deployment) -> None:
    deployment.call("lock", owner=ME)
    other = helpers()
    with pytest.raises(RefusedError, match=r"locked by me@laptop \(pid 12\)") as refused:
        other.call("lock", run_dir=str(deployment.run_dir), owner=YOU)
    assert refused.value.details == {"owner": ME, "helper": deployment.helper.pid}
    assert other.call("lock_owner", run_dir=str(deployment.run_dir)) == {"owner": ME}
    deployment.call("unlock")
    other.call("lock", run_dir=str(deployment.run_dir), owner=YOU)
    assert deployment.call("lock_owner") == {"owner": YOU}


def test_a_lock_is_not_taken_twice_over_one_line(deployment: Deployment) -> None:
    deployment.call("lock", owner=ME)
    with pytest.raises(RefusedError, match="locked"):
        deployment.call("lock", owner=ME)


def test_nobody_holds_a_lock_that_was_freed_or_never_taken(deployment: Deployment) -> None:
    assert deployment.call("lock_owner") == {"owner": None}
    deployment.call("lock", owner=ME)
    deployment.call("unlock")
    assert deployment.call("lock_owner") == {"owner": None}
    assert deployment.call("unlock") == {}


@pytest.mark.parametrize("end", ["kill", "close"])
def test_the_end_of_the_helper_frees_it(helpers: Helpers, deployment: Deployment, end: str) -> None:
    first = helpers()
    first.call("lock", run_dir=str(deployment.run_dir), owner=ME)
    assert deployment.call("lock_owner") == {"owner": ME}
    getattr(first, end)()
    assert deployment.call("lock_owner") == {"owner": None}
    deployment.call("lock", owner=YOU)


def test_processes_that_were_started_do_not_hold_it(helpers: Helpers, deployment: Deployment) -> None:
    deployment.call("lock", owner=ME)
    deployment.run(a="exec sleep 300")
    deployment.helper.kill()
    deployment.helper = helpers()
    assert deployment.record("a")["alive"] is True
    assert deployment.call("lock_owner") == {"owner": None}


def test_asking_who_holds_it_does_not_keep_others_out(helpers: Helpers, deployment: Deployment) -> None:
    deployment.call("lock", owner=ME)
    deployment.call("unlock")
    asker = helpers()
    asked = [asker.stream("lock_owner", run_dir=str(deployment.run_dir)) for _ in range(200)]
    for _ in range(20):
        deployment.call("lock", owner=ME)
        deployment.call("unlock")
    for stream in asked:
        assert stream.next() is None


@pytest.mark.parametrize("depth", ["", "demo", "demo/n01"])
@pytest.mark.parametrize("end", ["unlock", "close"])
def test_nothing_stays_of_a_lock_under_which_nothing_was_done(
    helpers: Helpers, tmp_path: Path, depth: str, end: str
) -> None:
    """What was there before stays; the run folder itself holds nothing then, so it is no loss."""
    helper, root = helpers(), tmp_path / "root"
    (root / depth).mkdir(parents=True)
    helper.call("lock", run_dir=str(root / "demo" / "n01"), owner=ME)
    assert (root / "demo" / "n01" / "lock").exists()
    if end == "unlock":
        helper.call("unlock", run_dir=str(root / "demo" / "n01"))
    else:
        helper.close()
    assert [path.name for path in root.rglob("*")] == (["demo"] if depth else [])


def test_a_lock_stays_where_something_was_done(deployment: Deployment) -> None:
    deployment.call("lock", owner=ME)
    deployment.call("audit", who="me", what="x")
    deployment.call("unlock")
    assert sorted(path.name for path in deployment.run_dir.iterdir()) == ["audit.log", "lock"]


def test_whoever_waits_for_a_lock_that_is_put_away_gets_a_true_one(helpers: Helpers, tmp_path: Path) -> None:
    patient = patched(("    RETRY = 0.5\n", "    RETRY = 10.0\n"))
    run_dir, (one, other) = str(tmp_path / "demo" / "n01"), (helpers(), helpers(modules=patient))
    for _ in range(20):
        one.call("lock", run_dir=run_dir, owner=ME)
        waiting = other.stream("lock", run_dir=run_dir, owner=YOU)
        one.call("unlock", run_dir=run_dir)
        assert waiting.next() is None
        assert one.call("lock_owner", run_dir=run_dir) == {"owner": YOU}
        other.call("unlock", run_dir=run_dir)
    assert list(tmp_path.iterdir()) == []


def refusal(stream: Stream) -> RefusedError | None:
    try:
        stream.next()
    except RefusedError as refused:
        return refused
    return None


def test_only_one_of_many_gets_it(helpers: Helpers, tmp_path: Path) -> None:
    run_dir = str(tmp_path / "demo" / "n01")
    everybody = [helpers() for _ in range(4)]
    streams = [helper.stream("lock", run_dir=run_dir, owner={**ME, "pid": n}) for n, helper in enumerate(everybody)]
    refused = [raised.code for raised in map(refusal, streams) if raised is not None]
    assert refused == ["locked"] * 3
    owner = wait_for(lambda: everybody[0].call("lock_owner", run_dir=run_dir)["owner"], "the owner")
    assert owner["pid"] in range(4)
