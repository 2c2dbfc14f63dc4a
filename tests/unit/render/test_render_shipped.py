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


def test_a_split_is_started_by_hand_in_its_stages() -> None:
    readme = tree(planned("cpu/pd-one-machine.yaml"))["README.txt"]
    begin = readme.index("     In this order of stages")
    assert readme[begin:].splitlines() == [
        "     In this order of stages, hosts of one stage at the same time, each when the one before is ready:",
        "     - prefill: 127.0.1.1",
        "       decode: 127.0.1.2 127.0.1.3",
        "     - router: 127.0.1.4",
        "  3. Wait until the router lists 2 workers, all healthy: curl --noproxy '*' http://127.0.1.4:30000/workers",
        "  4. Take down: bash stop.sh, on the router's host first (127.0.1.4), then decode, then prefill.",
    ]


def test_the_router_says_each_worker_on_a_line_and_what_it_waits_for() -> None:
    text = tree(planned("kunpeng/deepseek-v3-two-bucket.yaml"))["gw1/scripts/router.sh"]
    assert [line for line in text.splitlines() if line.startswith("# starts when")] == [
        "# starts when prefill/short is ready",
        "# starts when prefill/long is ready",
        "# starts when decode is ready",
    ]
    command = text.split("exec -- \\\n")[1].splitlines()
    assert command[:7] == [
        "  taskset -c 228 \\",
        "  python -m sglang_router.launch_router \\",
        "  --host 10.0.0.250 \\",
        "  --port 30000 \\",
        "  --pd-disaggregation \\",
        "  --prefill http://10.0.0.1:30000 9001 \\",
        "  --prefill http://10.0.0.17:30000 9001 \\",
    ]
