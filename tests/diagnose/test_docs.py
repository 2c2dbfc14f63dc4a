"""The page on diagnosis lists every rule, as the data has it."""

from __future__ import annotations

import os
from pathlib import Path

from sgdeploy.engine.diagnosis import Rule, Sentence, diagnosis_rules

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"
BEGIN, END = "<!-- rules -->\n", "<!-- end of rules -->\n"
IS_REFRESHED = os.environ.get("SGDEPLOY_REFRESH_GOLDEN") == "1"


def row(sentence: Sentence) -> str:
    where = f"{sentence.scope}{', always' * (sentence.phase == 'any')}" if isinstance(sentence, Rule) else "all ranks"
    cells = (f"`{sentence.id}`", sentence.level, where, sentence.cause, sentence.next, sentence.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def test_the_table_of_rules_is_the_data() -> None:
    """Set SGDEPLOY_REFRESH_GOLDEN=1 to write the table anew, then read the difference."""
    rules = diagnosis_rules()
    head = "| rule | level | where | cause | next step | known from |\n|---|---|---|---|---|---|\n"
    table = head + "".join(map(row, (*rules.rules, *rules.reasoned)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + table + END + after
    if IS_REFRESHED:
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted
