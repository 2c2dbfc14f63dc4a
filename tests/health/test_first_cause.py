"""Who is named first: a rank that lost a peer is a symptom, whatever the clocks say."""

from __future__ import annotations

import re

from sgdeploy.engine.milestones import SYMPTOM, milestone_sets
from sgdeploy.health.deployment import DeploymentHealth
from sgdeploy.health.states import Exit, Observation
from tests.unit.deploy.fakes import make_plan

GLOO = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] Read error "
    "[127.0.0.1]:7056: Connection reset by peer. This is typically caused by a remote worker hanging"
)


def ended(process: str, ago: float, *milestones: str) -> Observation:
    return Observation(process, alive=False, exit=Exit(signal=9), died_ago=ago, milestones=milestones)


def test_a_silent_death_is_the_cause_even_if_it_was_seen_later() -> None:
    health = DeploymentHealth.begin(make_plan(3), 100.0)
    rows = [
        ended("demo/native/h1", 0.30, SYMPTOM),
        ended("demo/native/h2", 0.20),
        ended("demo/native/h3", 0.25, SYMPTOM),
    ]
    health, _ = health.observe(rows, 101.0)
    assert [it.process for it in health.failures] == ["demo/native/h2", "demo/native/h1", "demo/native/h3"]


def test_the_node_is_asked_for_symptoms_of_engines() -> None:
    for name in ("engine", "engine-follower"):
        pattern = dict(milestone_sets()[name].wire())[SYMPTOM]
        assert re.search(pattern, GLOO)
        assert not re.search(
            pattern, '[2026-11-29 11:50:41] INFO:  127.0.0.1:46570 - "GET /model_info HTTP/1.1" 200 OK'
        )
    assert SYMPTOM not in dict(milestone_sets()["router"].wire())


def test_a_symptom_is_no_milestone() -> None:
    engine = milestone_sets()["engine"]
    assert engine.furthest([SYMPTOM]) is None
    assert not engine.load_passed([SYMPTOM])
