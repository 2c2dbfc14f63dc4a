"""When a unit that failed is started again: streaks, pauses, the cap, and what begins the count anew."""

from __future__ import annotations

from sgdeploy.health.restarts import CALM, Again, GiveUp, Restarts
from sgdeploy.plan.model import RestartPolicy

POLICIES = {"prefill/a": RestartPolicy(max=3, backoff=10.0), "router": RestartPolicy(max=1, backoff=2.0)}


def test_the_pause_doubles_and_the_cap_ends_it() -> None:
    state, now = Restarts(POLICIES), 0.0
    for attempt, pause in enumerate((10.0, 20.0, 40.0), 1):
        state, action = state.failed(["prefill/a"], now)
        assert action == Again(("prefill/a",), pause, attempt)
        state = state.ready(["prefill/a"], now + 5.0)
        now += 100.0
    state, action = state.failed(["prefill/a"], now)
    assert action == GiveUp("prefill/a", "has failed again after 3 restarts in a row")


def test_who_was_ready_for_long_begins_anew() -> None:
    state, _ = Restarts(POLICIES).failed(["router"], 0.0)
    state = state.ready(["router"], 10.0)
    state = state.ready(["router"], 20.0)  # told again, and ready since 10.0 all the same
    _, short = state.failed(["router"], 10.0 + CALM - 1.0)
    assert isinstance(short, GiveUp)
    _, calm = state.failed(["router"], 10.0 + CALM)
    assert calm == Again(("router",), 2.0, 1)


def test_who_was_never_ready_again_counts_on_however_long_it_took() -> None:
    state, _ = Restarts(POLICIES).failed(["router"], 0.0)
    _, action = state.failed(["router"], 10 * CALM)
    assert isinstance(action, GiveUp)


def test_without_a_policy_nothing_is_restarted() -> None:
    state = Restarts(POLICIES)
    after, action = state.failed(["router", "decode"], 0.0)
    assert action == GiveUp("decode", "has failed, and its profile has no `restart:` for it")
    assert after is state, "what is not done is not counted"


def test_several_go_together_after_the_longest_pause() -> None:
    state, _ = Restarts(POLICIES).failed(["prefill/a"], 0.0)
    _, action = state.failed(["prefill/a", "router"], 1.0)
    assert action == Again(("prefill/a", "router"), 20.0, 2)
