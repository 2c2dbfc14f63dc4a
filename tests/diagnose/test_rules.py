"""Every rule has sample lines that hit it and no other; lines of normal work hit none."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Literal

import pytest
import yaml

from sgdeploy.diagnose.stamps import plain
from sgdeploy.engine.diagnosis import LEVELS, Matcher, Rules, diagnosis_rules

Kind = Literal["engine", "router", "kernel"]
HERE = Path(__file__).parent
LOGS = HERE / "logs"
KINDS: dict[Kind, dict[str, list[str]]] = yaml.safe_load((HERE / "samples.yaml").read_text(encoding="utf-8"))
MATCHER = Matcher(diagnosis_rules())
EVERY = [(kind, rule, sample) for kind, rules in KINDS.items() for rule, samples in rules.items() for sample in samples]


@pytest.mark.parametrize(("kind", "rule", "sample"), EVERY, ids=[f"{rule}-{n}" for n, (_, rule, _) in enumerate(EVERY)])
def test_a_sample_hits_its_rule_and_no_other(kind: Kind, rule: str, sample: str) -> None:
    *above, line = sample.split("\n")
    taken = MATCHER.take(line, kind, above)
    assert taken is not None, f"no rule takes it: {line}"
    assert taken.rule.id == rule


def test_every_rule_has_a_sample() -> None:
    sampled = {rule for rules in KINDS.values() for rule in rules}
    assert sampled == {rule.id for rule in diagnosis_rules().rules}


def test_every_pattern_has_a_line_of_its_own_wording() -> None:
    """No rule is a dead letter: for each, some sample meets one of its patterns, whoever takes the line."""
    for rule in diagnosis_rules().rules:
        samples = next(rules[rule.id] for rules in KINDS.values() if rule.id in rules)
        assert any(rule.values(sample.rpartition("\n")[2]) is not None for sample in samples), rule.id


def test_sentences_fill_in_only_what_is_known() -> None:
    given = {"moment", "port_role", "holder_said", "near_flag", "file_said", "pool", "context"}
    for rule in diagnosis_rules().rules:
        named = {name for pattern in rule.patterns for name in _groups(pattern)}
        for text in (rule.cause, rule.next, *(each.cause or "" for each in rule.at.values())):
            assert _fields(text) <= named | given | set(rule.words), rule.id


@pytest.mark.parametrize("case", ["ok-single", "ok-two-nodes", "ok-pd"])
def test_lines_of_normal_work_hit_nothing_that_counts(case: str) -> None:
    for path in sorted((LOGS / case).glob("*.log")):
        above: list[str] = []
        for line in map(plain, path.read_text().splitlines()):
            taken = MATCHER.take(line, "engine", above[-60:])
            assert taken is None or taken.rule.level == "note" or taken.rule.phase == "start", line
            above.append(line)


def test_a_rule_that_is_no_regular_expression_is_refused() -> None:
    rule = diagnosis_rules().rules[0].model_dump() | {"patterns": ["("]}
    with pytest.raises(ValueError, match="not a regular expression"):
        Rules.model_validate({"version": 1, "dull": [], "rules": [rule], "reasoned": []})


def test_two_rules_of_one_name_are_refused() -> None:
    rule = diagnosis_rules().rules[0]
    with pytest.raises(ValueError, match="share an id"):
        Rules.model_validate({"version": 1, "dull": [], "rules": [rule, rule], "reasoned": []})


def test_levels_are_in_order() -> None:
    assert LEVELS == ("cause", "lead", "vague", "symptom", "note")


def _groups(pattern: str) -> set[str]:
    return set(re.compile(pattern).groupindex)


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}
