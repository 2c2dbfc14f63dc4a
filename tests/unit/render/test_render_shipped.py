"""The shipped profiles, rendered: bash reads them, their ports are those of the plan, and they come quickly."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from sgdeploy.paths import data_dir
from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Plan
from sgdeploy.render.scripts import tree
from tests.unit.render.render_bench import LIMIT

PROFILES = data_dir("profiles")
FILES = sorted(str(file.relative_to(PROFILES)) for file in PROFILES.glob("*/*.yaml") if file.parent.name != "overlays")


def planned(name: str) -> Plan:
    return compile_profile(PROFILES / name).plan


@pytest.mark.parametrize("name", FILES)
def test_bash_reads_what_is_rendered(name: str) -> None:
    scripts = [text for path, text in tree(planned(name)).items() if path.endswith(".sh")]
    # One function around each makes one program of all, so that bash is started once.
    whole = "".join(f"script_{number}() {{\n{text}\n}}\n" for number, text in enumerate(scripts))
    read = subprocess.run(["bash", "-n"], input=whole, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("name", FILES)
def test_its_ports_are_those_of_the_plan_and_no_others(name: str) -> None:
    plan = planned(name)
    texts = tree(plan)
    for process in plan.processes:
        text = texts[f"{process.host}/scripts/{process.key}.sh"]
        comments, command = text.split("exec -- ")
        planned_ports = {str(port) for port in process.listens.values() if port is not None}
        planned_ports |= {where.rpartition(":")[2] for where in process.connects.values()}
        said = set(re.findall(r"^# (?:listens on port |connects to \S*:)(\d+)", comments, re.MULTILINE))
        assert said == planned_ports
        used = set(re.findall(r"(?:^  --port |^  --dist-init-addr \S+:)(\d+)", command, re.MULTILINE))
        assert used <= planned_ports
        assert {str(port) for port in (process.listens.get("http"),) if port is not None} <= used


def test_the_largest_is_rendered_in_no_time() -> None:
    plan = planned("kunpeng/deepseek-v3-native.yaml")
    start = time.process_time()
    texts = tree(plan)
    seconds = time.process_time() - start
    assert len(texts) == 1 + 16 * 2 + 256
    assert seconds < 1, "256 processes should take some 40 ms"
