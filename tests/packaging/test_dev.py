"""./dev and .ci/run: readable by bash, clear where they cannot go on, and without this machine's addresses in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 60
COPIES_ITSELF = '"-m venv "*) mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python" ;;'
"""What a stand-in for Python does when it is asked for a virtual environment."""


def dev(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ./dev in a copy of the checkout."""
    return subprocess.run(
        [folder / "dev", *words],
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give a folder with a space in its name that holds ./dev and what it reads."""
    folder = tmp_path / "my clone"
    folder.mkdir()
    for name in ("dev", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder / name)
    return folder


def tools(folder: Path, *names: str) -> Path:
    """Make a folder that holds nothing but these tools of the system."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def stand_in(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("name", ["dev", ".ci/run"])
def test_bash_reads_it(name: str) -> None:
    read = subprocess.run(["bash", "-n", ROOT / name], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (read.returncode, read.stderr) == (0, "")


def test_it_can_be_run_without_naming_bash() -> None:
    assert os.access(ROOT / "dev", os.X_OK)


def test_it_says_what_it_can_do(checkout: Path) -> None:
    assert dev(checkout, "--help").stdout.startswith("./dev demo ")
    wrong = dev(checkout, "tset")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "./dev test" in wrong.stderr


def test_no_python_is_explained(checkout: Path, tmp_path: Path) -> None:
    bare = tools(tmp_path / "bin", "bash", "env", "cat")
    stand_in(bare / "python3", '[[ $1 != --version ]] || echo "Python 3.9.9"; exit 1')
    ended = dev(checkout, "demo", PATH=str(bare))
    assert ended.returncode == 1
    assert "no Python of 3.10 or newer was found (python3 is Python 3.9.9)" in ended.stderr
    assert "apt-get install python3 python3-venv" in ended.stderr
    assert "dnf install" in ended.stderr


def test_a_named_python_that_is_too_old_is_refused(checkout: Path, tmp_path: Path) -> None:
    old = stand_in(tmp_path / "old python", "exit 1")
    ended = dev(checkout, "demo", SGDEPLOY_PYTHON=str(old))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"dev: error: SGDEPLOY_PYTHON={old} is no Python of 3.10 or newer\n",
    )


def test_a_missing_venv_module_is_explained(checkout: Path, tmp_path: Path) -> None:
    bare = tools(tmp_path / "bin", "bash", "env", "cat", "rm")
    stand_in(bare / "python3", "[[ $1 != -c && $1 != --version ]] || exit 0; echo no ensurepip; exit 1")
    ended = dev(checkout, "test", PATH=str(bare))
    assert ended.returncode == 1
    assert "no ensurepip" in ended.stderr
    assert "apt-get install python3-venv" in ended.stderr
    assert not (checkout / ".venv").exists()


def test_it_installs_once_and_again_when_dependencies_change(checkout: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    python = f'printf "%s\\n" "$*" >>"{said}"; case "$*" in {COPIES_ITSELF} esac'
    environ = {"SGDEPLOY_PYTHON": str(stand_in(tmp_path / "python", python))}

    def installs() -> list[str]:
        assert dev(checkout, "demo", "--x", **environ).returncode == 0
        lines = said.read_text().splitlines()
        said.unlink()
        assert lines[-1] == "-m sgdeploy demo --x"
        return [line for line in lines if "pip install" in line]

    first = installs()
    assert len(first) == 1
    assert first[0].endswith(f"--editable {checkout}[dev]")
    assert installs() == []
    (checkout / "pyproject.toml").write_text("[project]\n")
    assert len(installs()) == 1


def test_a_failed_install_is_explained_and_tried_again(checkout: Path, tmp_path: Path) -> None:
    python = f'case "$*" in {COPIES_ITSELF} *install*) exit 1 ;; esac'
    environ = {"SGDEPLOY_PYTHON": str(stand_in(tmp_path / "python", python))}
    for _ in range(2):
        ended = dev(checkout, "demo", **environ)
        assert ended.returncode == 1
        assert "pip could not install sgdeploy; the reason stands above" in ended.stderr
        assert "PIP_INDEX_URL" in ended.stderr


def test_shell_env_may_be_evaluated(checkout: Path, tmp_path: Path) -> None:
    python = f'case "$*" in {COPIES_ITSELF} esac'
    ended = dev(checkout, "shell-env", SGDEPLOY_PYTHON=str(stand_in(tmp_path / "python", python)))
    assert ended.returncode == 0, ended.stderr
    path = subprocess.run(
        ["bash", "-c", f'{ended.stdout}echo "$PATH"'],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    ).stdout
    assert path.startswith(f"{checkout}/.venv/bin:")
