"""The wheel, built and installed into a fresh environment, plans a shipped profile in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 100
"""Seconds for one step; building takes about two."""


def run(*words: str | Path, cwd: Path) -> str:
    """Run a program to its end and give its output; what it said is in the message where it failed."""
    ended = subprocess.run(
        words,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PIP_CONFIG_FILE": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@dataclass(frozen=True)
class Installed:
    """A wheel and the environment that it was installed into."""

    wheel: Path
    bin: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build and install; dependencies come from the environment of the tests, so that no network is needed."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    # An environment without pip was filled by the pip of the Python that it was made from.
    pip = sys.executable if find_spec("pip") else os.path.realpath(sys.executable)
    run(pip, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(wheel, python.parent)


def test_everything_that_is_needed_travels(installed: Installed) -> None:
    with ZipFile(installed.wheel) as archive:
        names = set(archive.namelist())
    for folder in ("templates", "profiles", "inventories"):
        ours = {str(file.relative_to(ROOT)) for file in (ROOT / folder).rglob("*") if file.is_file()}
        assert ours
        assert {f"sgdeploy/_data/{name}" for name in ours} <= names
    assert {"sgdeploy/py.typed", "sgdeploy/node/boot.py", "sgdeploy/rehearse/engine/__main__.py"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]


def test_a_shipped_profile_is_planned_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    sgdeploy = installed.bin / "sgdeploy"
    plan = json.loads(run(sgdeploy, "plan", "shipped:kunpeng/deepseek-v3-native.yaml", "--json", cwd=tmp_path))
    assert (len(plan["hosts"]), len(plan["processes"])) == (16, 256)
    assert list(tmp_path.iterdir()) == []


def test_it_runs_from_the_environment_and_not_from_the_checkout(installed: Installed, tmp_path: Path) -> None:
    where = run(installed.bin / "python", "-c", "import sgdeploy; print(sgdeploy.__file__)", cwd=tmp_path)
    assert where.startswith(str(installed.bin.parent))


def test_scripts_are_written_from_it(installed: Installed, tmp_path: Path) -> None:
    sgdeploy = installed.bin / "sgdeploy"
    run(sgdeploy, "plan", "shipped:demo/local.yaml", "--out", tmp_path / "out", cwd=tmp_path)
    for name in ("start.sh", "stop.sh", "engine.py"):
        assert len(list((tmp_path / "out").glob(f"*/{name}"))) == 3
    for script in (tmp_path / "out").rglob("*.sh"):
        run("bash", "-n", script, cwd=tmp_path)
