"""Every code that preflight can give is documented and proven, and nothing else is documented."""

from __future__ import annotations

import re
from pathlib import Path

import sgdeploy.facts
from sgdeploy.facts import splits

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(sgdeploy.facts.__file__).parent
TOOLS = {"no-bash", "no-taskset", "no-numactl", "no-insmod"}


def _given() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py"))
    call = r"(?:subject\.error|subject\.warning|make|_model_findings|Finding|_differ)\(\s*(?:known,\s*)?\"([a-z-]+)\""
    return set(re.findall(call, text)) | TOOLS | set(splits.HINTS)


def _documented() -> list[str]:
    text = (ROOT / "docs" / "preflight.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`([a-z-]+)`", cell)]


def test_the_page_lists_every_code_once() -> None:
    assert sorted(_documented()) == sorted(_given())


def test_every_code_has_a_test_with_its_words() -> None:
    here = Path(__file__)
    others = [path for path in here.parent.glob("test_*.py") if path.name != here.name]
    tests = "\n".join(path.read_text(encoding="utf-8") for path in others)
    assert [code for code in sorted(_given()) if f'"{code}"' not in tests] == []
