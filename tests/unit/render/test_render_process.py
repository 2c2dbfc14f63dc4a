"""What a process script does around its program: activation, secrets, pinning, folders, and clear failures."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from sgdeploy.plan.model import SecretConfig
from sgdeploy.render.quote import RenderError
from sgdeploy.render.scripts import process_script
from tests.unit.render.render_bench import LIMIT, Bench
from tests.unit.render.render_plans import plan_of, process, secret

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.at(tmp_path)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def conda(base: Path, on_activate: str) -> Path:
    """Make a conda whose hook reads an unset variable, as real ones do."""
    hook = f'X_$undefined_here=1 2>/dev/null; conda() {{ [ "$1 $2" = "activate my env" ] && {on_activate}; }}'
    program(base / "bin" / "conda", f"#!/bin/sh\n[ \"$*\" = 'shell.bash hook' ] && cat <<'END'\n{hook}\nEND\n")
    return base


def test_it_becomes_the_program(bench: Bench) -> None:
    ran = bench.run(process(argv=bench.standin))
    assert ran.seen is not None, ran.err
    assert (ran.code, ran.seen.pid, ran.seen.cwd) == (0, ran.pid, str(bench.run_dir).encode())


def test_its_exit_code_is_the_programs(bench: Bench) -> None:
    assert bench.run(process(argv=("bash", "-c", "exit 7"))).code == 7


def test_what_is_activated_comes_first_and_the_plan_wins(bench: Bench, tmp_path: Path) -> None:
    base = conda(tmp_path / "conda base", "export A=conda B=conda C=conda")
    setvars = tmp_path / "set vars.sh"
    setvars.write_text("cd /tmp; export B=vendor S=/vendor/lib D=$never_set; false")
    ran = bench.run(
        process(
            argv=bench.standin,
            activate=(f"conda:{base}:my env", f"setvars:{setvars}"),
            env={"C": "plan", "P": "plan"},
            env_prepend={"S": ("/ours/lib", "/ours/lib64"), "P": ("first",), "NEW": ("a",), "EMPTY": ()},
        )
    )
    assert ran.seen is not None, ran.err
    environ = ran.seen.environ
    assert [environ[name] for name in (b"A", b"B", b"C", b"D")] == [b"conda", b"vendor", b"plan", b""]
    assert [environ[name] for name in (b"S", b"P", b"NEW")] == [
        b"/ours/lib:/ours/lib64:/vendor/lib",
        b"first:plan",
        b"a",
    ]
    assert b"EMPTY" not in environ
    assert ran.seen.cwd == str(bench.run_dir).encode()
    assert ran.err == f"sgdeploy: note: {setvars} ended with a failure\n"


def test_a_virtual_environment_is_activated(bench: Bench) -> None:
    program(bench.run_dir / "my venv" / "bin" / "activate", "export VIRTUAL_ENV=yes")
    ran = bench.run(process(argv=bench.standin, activate=("venv:~/my venv",)))
    assert ran.seen is not None, ran.err
    assert ran.seen.environ[b"VIRTUAL_ENV"] == b"yes"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("conda:/no such:env", "cannot run /no such/bin/conda"),
        ("conda:{base}:other env", "cannot activate the conda environment other env"),
        ("venv:/no such", "cannot activate the virtual environment /no such"),
        ("setvars:/no such.sh", "cannot read /no such.sh"),
    ],
)
def test_a_failed_activation_ends_it(bench: Bench, tmp_path: Path, item: str, message: str) -> None:
    base = conda(tmp_path / "conda", "true")
    ran = bench.run(process(argv=bench.standin, activate=(item.format(base=base),)))
    assert (ran.code, ran.seen) == (78, None)
    assert ran.err.splitlines()[-1] == f"sgdeploy: {message}"


def test_strict_mode_is_back_after_activation(tmp_path: Path) -> None:
    setvars = tmp_path / "setvars.sh"
    setvars.write_text("true")
    text = process_script(plan_of(one := process(activate=(f"setvars:{setvars}",))), one)
    lines = [line for line in text.splitlines() if line.startswith("set ")]
    assert lines == ["set -euo pipefail", "set +euo pipefail", "set -euo pipefail"]


@pytest.mark.parametrize(
    "environ",
    [
        {"SGDEPLOY_SECRET_HF": "tok'en $(id)", "SGDEPLOY_SECRET_KEY": ""},
        {"HF": "tok'en $(id)", "KEY": ""},
        {"HF": "stale", "SGDEPLOY_SECRET_HF": "tok'en $(id)", "KEY": ""},
    ],
)
def test_secrets_come_from_the_starter_or_from_whoever_runs_it(bench: Bench, environ: dict[str, str]) -> None:
    env = {
        "HF_TOKEN": secret("HF"),
        "AGAIN": secret("HF"),
        "API_KEY": secret("KEY"),
    }
    ran = bench.run(process(argv=bench.standin, env=env), environ)
    assert ran.seen is not None, ran.err
    assert ran.seen.environ[b"HF_TOKEN"] == ran.seen.environ[b"AGAIN"] == b"tok'en $(id)"
    assert ran.seen.environ[b"API_KEY"] == b""
    assert not [name for name in ran.seen.environ if name.startswith(b"SGDEPLOY_SECRET_")]


def test_secrets_may_be_named_like_other_variables(bench: Bench) -> None:
    env = {"A": secret("B"), "B": secret("A"), "C": secret("D"), "D": "plain"}
    ran = bench.run(process(argv=bench.standin, env=env), {"A": "a", "B": "b", "D": "d"})
    assert ran.seen is not None, ran.err
    assert [ran.seen.environ[name] for name in (b"A", b"B", b"C", b"D")] == [b"b", b"a", b"d", b"plain"]


def test_a_secret_that_is_not_there_is_named(bench: Bench) -> None:
    ran = bench.run(process(argv=bench.standin, env={"X": secret("HF")}))
    assert (ran.code, ran.seen) == (78, None)
    assert ran.err == "sgdeploy: the variable HF is not set, and this process needs the secret in it\n"


def test_a_missing_file_of_secret_flags_is_explained(bench: Bench) -> None:
    config = SecretConfig(path="secrets/k.yaml", values={"api-key": secret("KEY")})
    one = process(argv=(*bench.standin, "secrets/k.yaml"), in_run_dir=(len(bench.standin),), secret_config=config)
    ran = bench.run(one)
    assert ran.code == 78
    assert ran.err == (
        "sgdeploy: secrets/k.yaml is missing in the run folder; sgdeploy writes it at start, "
        "by hand make it with mode 0600 and the lines `api-key: <KEY>`\n"
    )
    program(bench.run_dir / "secrets" / "k.yaml", "api-key: x")
    ran = bench.run(one)
    assert ran.seen is not None, ran.err
    assert ran.seen.argv == [f"{bench.run_dir}/secrets/k.yaml".encode()]


def test_cores_are_given_to_taskset(bench: Bench) -> None:
    core = max(os.sched_getaffinity(0))
    ran = bench.run(process(argv=bench.standin, cores=(core,)))
    assert ran.seen is not None, ran.err
    assert (ran.seen.cores, ran.seen.pid) == (str(core), ran.pid)


def test_memory_nodes_are_given_to_numactl(bench: Bench, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "numactl", '#!/bin/bash\nexport GIVEN="$1 $2"; shift 2; exec "$@"\n')
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    core = min(os.sched_getaffinity(0))
    ran = bench.run(process(argv=bench.standin, memory_nodes=(16, 17, 18, 20), cores=(core,)), environ)
    assert ran.seen is not None, ran.err
    assert (ran.seen.environ[b"GIVEN"], ran.seen.cores) == (b"--membind=16-18,20 --", str(core))


@pytest.mark.parametrize(("cwd", "below"), [("~/x y", "x y"), ("~", ""), ("sub", "sub"), ("-", "-"), (None, "")])
def test_the_working_folder_may_be_relative(bench: Bench, cwd: str | None, below: str) -> None:
    (bench.run_dir / below).mkdir(exist_ok=True)
    ran = bench.run(process(argv=bench.standin, cwd=cwd), {"CDPATH": "/usr", "OLDPWD": "/"})
    assert ran.seen is not None, ran.err
    assert ran.seen.cwd == str(bench.run_dir / below).encode()


def test_a_missing_working_folder_is_named(bench: Bench) -> None:
    ran = bench.run(process(argv=bench.standin, cwd="/no such"))
    assert (ran.code, ran.err.splitlines()[-1]) == (78, "sgdeploy: cannot enter /no such")


@pytest.mark.parametrize("call", ["native-n01-r00.sh", "./native-n01-r00.sh", "../scripts/native-n01-r00.sh"])
def test_it_finds_its_run_folder_from_anywhere(tmp_path: Path, call: str) -> None:
    bench = Bench.at(tmp_path, "-ends with a line end\n")
    one = process(argv=(*bench.standin, "engine.py"), in_run_dir=(len(bench.standin),))
    ran = bench.run(one, {"CDPATH": "/usr:/tmp"}, call=call, cwd=bench.run_dir / "scripts")
    assert ran.seen is not None, ran.err
    assert ran.seen.argv == [f"{bench.run_dir}/engine.py".encode()]


def test_it_runs_where_a_symlink_leads_to_the_run_folder(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(bench.run_dir)
    one = process(argv=bench.standin)
    ran = bench.run(one, call=str(tmp_path / "link" / "scripts" / "native-n01-r00.sh"))
    assert ran.seen is not None, ran.err
    assert ran.seen.environ[b"PWD"] == str(tmp_path / "link").encode()


def test_a_script_is_made_of_lines_a_person_can_read() -> None:
    one = process(argv=("python", "-m", "sglang.launch_server", "--tp-size", "16", "--a", "--", "b c"))
    text = process_script(plan_of(one), one)
    assert text.split("exec -- \\\n")[1] == ("  python -m sglang.launch_server \\\n  --tp-size 16 \\\n  --a -- 'b c'\n")
    assert subprocess.run(["bash", "-n"], input=text, text=True, timeout=LIMIT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"argv": ()}, "process dsv3/native/n01/r00 has no program to run"),
        ({"argv": ("", "x")}, "process dsv3/native/n01/r00 has no program to run"),
        ({"argv": ("x", "a\0")}, "holds a NUL character"),
        ({"env": {"A": "\0"}}, "holds a NUL character"),
        ({"env": {"A B": ""}}, "'A B' is no name of an environment variable"),
        ({"env": {"A": secret("UID")}}, "the variable UID belongs to bash"),
        ({"env_prepend": {"A-B": ("x",)}}, "'A-B' is no name of an environment variable"),
        ({"activate": ("conda:base",)}, "'conda:base' cannot be activated"),
        ({"activate": ("module:gcc",)}, "'module:gcc' cannot be activated"),
        ({"secret_config": SecretConfig(path="../x", values={})}, "'../x' does not stay inside the run folder"),
        ({"id": "dsv3"}, "'' cannot be the name of a file"),
        ({"id": "dsv3/" + "x" * 300}, "the file name would be longer than 255 bytes"),
    ],
)
def test_what_no_script_can_say_is_refused(changes: dict[str, object], message: str) -> None:
    one = process(**changes)
    with pytest.raises(RenderError) as caught:
        process_script(plan_of(one), one)
    assert message in str(caught.value)
