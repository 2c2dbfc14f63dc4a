"""The whole folder of a plan: what is in it, that it is stable, that bash reads it, that it comes quickly."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from sgdeploy.plan.model import Health, Plan, PlanHost, PlannedFile
from sgdeploy.render.quote import RenderError
from sgdeploy.render.scripts import host_script, process_script, stop_script, tree
from tests.unit.render.render_bench import LIMIT
from tests.unit.render.render_plans import kunpeng_plan, plan_of, process, secret

GOLDEN = Path(__file__).parent / "golden"
REFRESH = "SGDEPLOY_REFRESH_GOLDEN"
IS_REFRESHED = os.environ.get(REFRESH) == "1"


def cpu_plan() -> Plan:
    """One node that runs the plain engine in a virtual environment, with a secret and pinned memory."""
    host = PlanHost(
        host="edge 1",
        address="192.0.2.7",
        ssh="edge",
        run_dir="~/.local/state/sgdeploy/tiny/edge 1",
        files=(PlannedFile(path="tools/quote.py", source="render/quote.py"),),
    )
    one = process(
        id="tiny/native/edge 1",
        host="edge 1",
        address="192.0.2.7",
        node_rank=0,
        leader=True,
        argv=(
            *("python", "-m", "sglang.launch_server", "--model-path", "/models/it's tiny", "--host", "192.0.2.7"),
            *("--port", "30000", "--json-model-override-args", '{"num_hidden_layers": 2}'),
        ),
        env={"HF_TOKEN": secret("HF_TOKEN"), "SGLANG_USE_CPU_ENGINE": "1", "NOTE": "50 % of $HOME"},
        env_prepend={"LD_LIBRARY_PATH": ("/opt/my lib", "/opt/lib")},
        activate=("venv:~/venvs/sglang",),
        cores=(0, 1, 2, 3),
        memory_nodes=(0,),
        listens={"http": 30000},
        log="native-n000.log",
        health=Health(http="/health"),
    )
    return plan_of(one, hosts=(host,)).model_copy(update={"name": "tiny"})


def golden_texts() -> dict[str, str]:
    """Give each golden file's name and what is rendered for it today."""
    kunpeng, cpu = kunpeng_plan(nodes=2, ranks=1), cpu_plan()
    texts = {
        "kunpeng-rank.sh": (kunpeng, process_script(kunpeng, kunpeng.processes[1])),
        "kunpeng-start.sh": (kunpeng, host_script(kunpeng, kunpeng.hosts[0])),
        "kunpeng-stop.sh": (kunpeng, stop_script(kunpeng, kunpeng.hosts[0])),
        "cpu-process.sh": (cpu, process_script(cpu, cpu.processes[0])),
        "cpu-README.txt": (cpu, tree(cpu)["README.txt"]),
    }
    # The digest changes with every new field of the plan, which is no change of the scripts.
    return {name: text.replace(plan.digest, "sha256:DIGEST") for name, (plan, text) in texts.items()}


@pytest.mark.parametrize("name", sorted(golden_texts()))
def test_scripts_are_what_they_were(name: str) -> None:
    """Compare with tests/unit/render/golden; SGDEPLOY_REFRESH_GOLDEN=1 writes the files anew, for review by diff."""
    file, text = GOLDEN / name, golden_texts()[name]
    if IS_REFRESHED:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"if this is meant: {REFRESH}=1 ./dev test {Path(__file__)}"


def test_the_scripts_of_a_changed_plan_carry_its_own_digest() -> None:
    plan = kunpeng_plan()
    changed = plan.model_copy(update={"name": "other"})
    assert plan.digest != changed.digest
    assert changed.digest in process_script(changed, changed.processes[0])
    assert plan.model_copy(deep=True).digest == plan.digest


def test_every_file_has_its_place() -> None:
    assert sorted(tree(kunpeng_plan(nodes=2, ranks=2))) == [
        "README.txt",
        "n01/scripts/native-n01-r00.sh",
        "n01/scripts/native-n01-r01.sh",
        "n01/start.sh",
        "n01/stop.sh",
        "n02/scripts/native-n02-r00.sh",
        "n02/scripts/native-n02-r01.sh",
        "n02/start.sh",
        "n02/stop.sh",
    ]


def test_shipped_files_travel_with_the_host() -> None:
    assert tree(cpu_plan())["edge 1/tools/quote.py"].startswith('"""The one place that quotes')


def test_the_same_plan_gives_the_same_text() -> None:
    assert tree(kunpeng_plan(2, 2)) == tree(Plan.from_json(kunpeng_plan(2, 2).to_json()))


@pytest.mark.parametrize("plan", [kunpeng_plan(2, 2), cpu_plan()], ids=["kunpeng", "cpu"])
def test_bash_reads_every_script(plan: Plan) -> None:
    scripts = {name: text for name, text in tree(plan).items() if name.endswith(".sh")}
    for name, text in scripts.items():
        read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert (read.returncode, read.stderr) == (0, ""), name


def test_every_port_of_a_process_is_in_its_script_and_no_other() -> None:
    plan = kunpeng_plan(nodes=2, ranks=2)
    for one in plan.processes:
        planned = {str(port) for port in one.listens.values() if port is not None}
        planned |= {where.rpartition(":")[2] for where in one.connects.values()}
        comments, command = process_script(plan, one).replace(plan.digest, "").split("exec -- ")
        assert set(re.findall(r"^# (?:listens on port |connects to [^:]*:)(\d+)", comments, re.MULTILINE)) == planned
        # 9001 is handed to every rank and listened on by none of these: it is in no comment and in `listens` of none.
        assert set(re.findall(r"\b(\d{4,5})\b", command)) == planned | {"9001", "5010"}


def test_no_secret_value_and_no_place_for_one_is_in_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf-very-secret")
    assert not [name for name, text in tree(cpu_plan()).items() if "hf-very-secret" in text]


def test_four_thousand_ranks_come_in_a_second() -> None:
    """The aim is one second for plan and scripts together; the bound leaves room for a busy machine."""
    plan = kunpeng_plan(nodes=256, ranks=16)
    start = time.process_time()
    assert len(tree(plan)) == 1 + 2 * 256 + 4096
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (plan_of(process(host="..")), "host ..: '..' cannot be the name of a file"),
        (plan_of(process(host="a/b")), "host a/b: 'a/b' cannot be the name of a file"),
        (
            plan_of(
                process(),
                hosts=(
                    PlanHost(
                        host="n01",
                        address="n01",
                        ssh="n01",
                        run_dir="/r",
                        files=(PlannedFile(path="/etc/passwd", source="render/quote.py"),),
                    ),
                ),
            ),
            "host n01: '/etc/passwd' does not stay inside the run folder",
        ),
        (
            plan_of(
                process(),
                hosts=(
                    PlanHost(
                        host="n01",
                        address="n01",
                        ssh="n01",
                        run_dir="/r",
                        files=(PlannedFile(path="x", source="no/such.py"),),
                    ),
                ),
            ),
            "no/such.py is missing in the sgdeploy package; reinstall sgdeploy",
        ),
    ],
)
def test_no_file_leaves_its_folder(plan: Plan, message: str) -> None:
    with pytest.raises(RenderError) as caught:
        tree(plan)
    assert str(caught.value) == message


def test_own_templates_are_searched_first(tmp_path: Path) -> None:
    plan = kunpeng_plan()
    (tmp_path / "process.sh.j2").write_text("exec {{ process.argv[0] ~ ' x' }} {{ view.key }}\n")
    made = tree(plan, tmp_path)
    assert made["n01/scripts/native-n01-r00.sh"] == f"exec '{plan.processes[0].argv[0]} x' native-n01-r00\n"
    assert made["n01/start.sh"] == tree(plan)["n01/start.sh"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exec {{ process.argvv }}", "process.sh.j2: 'sgdeploy.plan.model.Process object' has no attribute 'argvv'"),
        ("x\n{% for %}", "process.sh.j2:2: Expected an expression, got 'end of statement block'"),
        ("{% include 'none.j2' %}", "the template none.j2 is missing"),
        ("{{ process.instance }}", "a template puts out None, which is no text"),
        ("{{ process.env }}", "a template puts out {}, which is no text"),
    ],
)
def test_a_broken_template_is_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "process.sh.j2").write_text(text)
    with pytest.raises(RenderError) as caught:
        tree(plan_of(process()), tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


def test_a_missing_template_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="is not a folder of templates"):
        tree(kunpeng_plan(), tmp_path / "none")
