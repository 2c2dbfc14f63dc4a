"""./dev engine: says why not where it cannot, installs once, and what it installs from is pinned and readable."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests" / "engine" / "environment"
LIMIT = 60
PYTHON = """\
echo "$*" >>"$SAID"
case "$*" in
  "-m venv "*) mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python" ;;
  *get_path*) mkdir -p "$SITE"; echo "$SITE" ;;
  *install*$FAILS*) exit 1 ;;
  *mooncake*) echo Traceback; echo "$LACKS"; [[ -z $LACKS ]] ;;
esac"""
"""A stand-in for Python that notes what it is asked for."""


def script(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)
    return file


class Checkout:
    """A copy of what ./dev engine reads, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        """Copy it."""
        self.folder = folder / "my clone"
        shutil.copytree(PARTS, self.folder / PARTS.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("dev", "pyproject.toml"):
            shutil.copy2(ROOT / name, self.folder / name)
        self.tools = folder / "bin"
        self.said = folder / "said"
        self.environ = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "SGDEPLOY_PYTHON": str(script(self.tools / "a python", PYTHON)),
            "SAID": str(self.said),
            "SITE": str(folder / "site"),
            "FAILS": "nothing",
            "LACKS": "",
        }
        script(self.tools / "uname", "echo Linux x86_64")

    def engine(self, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ./dev engine."""
        return subprocess.run(
            [self.folder / "dev", "engine"],
            cwd="/",
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def installs(self) -> list[str]:
        """Give the installations since the last look."""
        said = self.said.read_text().splitlines() if self.said.exists() else []
        self.said.unlink(missing_ok=True)
        return [line for line in said if "pip install" in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_it_installs_once_and_again_when_a_part_changes(checkout: Checkout) -> None:
    first = checkout.engine()
    assert first.returncode == 0, first.stderr
    assert "the real engine is in .engine" in first.stderr
    listed, bare = checkout.installs()
    assert listed.endswith("/requirements.txt")
    assert "--no-deps -r" in bare
    site = Path(checkout.environ["SITE"])
    assert (site / "cpu_standins.py").read_text() == (PARTS / "cpu_standins.py").read_text()
    assert (site / "cpu_standins.pth").read_text() == "import cpu_standins\n"
    assert checkout.engine().returncode == 0
    assert checkout.installs() == []
    for part in ("requirements.txt", "requirements-no-deps.txt", "cpu_standins.py", "tiny_model.py"):
        with (checkout.folder / PARTS.relative_to(ROOT) / part).open("a") as file:
            file.write("# changed\n")
        assert checkout.engine().returncode == 0
        assert len(checkout.installs()) == 2, part


@pytest.mark.parametrize("failing", ["requirements.txt", "requirements-no-deps.txt"])
def test_a_failed_installation_is_explained_and_tried_again(checkout: Checkout, failing: str) -> None:
    for _ in range(2):
        ended = checkout.engine(FAILS=failing)
        assert ended.returncode == 1
        assert "pip could not install the engine; the reason stands above" in ended.stderr
        assert "PIP_INDEX_URL" in ended.stderr
    assert checkout.engine().returncode == 0


def test_a_library_that_the_system_lacks_is_explained(checkout: Checkout) -> None:
    ended = checkout.engine(LACKS="ImportError: libibverbs.so.1: cannot open shared object file")
    assert ended.returncode == 1
    assert "Mooncake cannot be loaded: ImportError: libibverbs.so.1: cannot open shared object file" in ended.stderr
    assert "apt-get install libibverbs1" in ended.stderr
    assert checkout.engine().returncode == 0
    assert len(checkout.installs()) == 2, "it was installed once"


@pytest.mark.parametrize("machine", ["Linux aarch64", "Darwin arm64"])
def test_another_machine_is_told_what_stands_in(checkout: Checkout, machine: str) -> None:
    script(checkout.tools / "uname", f"echo {machine}")
    ended = checkout.engine()
    assert ended.returncode == 1
    assert f"the real engine runs on x86-64 Linux only, and this is {machine}" in ended.stderr
    assert "docs/rehearsal.md" in ended.stderr
    assert checkout.installs() == []


def test_a_python_without_wheels_is_refused(checkout: Checkout) -> None:
    old = script(checkout.tools / "old", '[[ $1 == --version ]] && echo "Python 3.10.1"; exit 1')
    ended = checkout.engine(SGDEPLOY_PYTHON=str(old))
    assert ended.returncode == 1
    assert f"pinned versions need Python 3.11, 3.12 or 3.13 ({old} is Python 3.10.1)" in ended.stderr
    assert not (checkout.folder / ".engine").exists()


def test_every_version_is_pinned_once_and_no_index_is_named() -> None:
    names: list[str] = []
    for file in ("requirements.txt", "requirements-no-deps.txt"):
        lines = [line for line in (PARTS / file).read_text().splitlines() if line and not line.startswith("#")]
        assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)] == []
        names += [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names))
    assert {"sglang", "sglang-router", "mooncake-transfer-engine-non-cuda", "torch"} < set(names)


def test_the_model_is_the_same_everywhere_and_holds_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        subprocess.run(
            [sys.executable, "-I", "-S", PARTS / "tiny_model.py", tmp_path / name], check=True, timeout=LIMIT
        )
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    data = (tmp_path / "one" / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    del header["__metadata__"]
    ends = [tensor["data_offsets"] for tensor in header.values()]
    assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert ends[-1][1] == len(data) - 8 - length
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    vocabulary = json.loads((tmp_path / "one" / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(vocabulary) == config["vocab_size"] == header["lm_head.weight"]["shape"][0]


def test_what_needs_cuda_is_switched_off_once_its_module_has_run(tmp_path: Path) -> None:
    module = tmp_path / "sglang/srt/disaggregation/mooncake/conn.py"
    module.parent.mkdir(parents=True)
    module.write_text("class MooncakeKVSender:\n    supports_host_tensor_indices = True\n    other = True\n")
    program = """
import cpu_standins, sglang.srt.disaggregation.mooncake.conn as conn
print(conn.MooncakeKVSender.supports_host_tensor_indices, conn.MooncakeKVSender.other, conn.__file__)
"""
    ended = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": f"{PARTS}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == (f"False True {module}\n", "")


def test_stand_ins_may_be_imported_and_not_called() -> None:
    program = """
import importlib.util, cpu_standins
import torchvision.transforms.functional as functional
from sgl_kernel import rmsnorm, anything_else
print(importlib.util.find_spec("soundfile"), rmsnorm.__name__, functional.inner.part.__name__)
try:
    import no_such_package
except ImportError as error:
    print(error)
rmsnorm(1)
"""
    ended = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(PARTS)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "None sgl_kernel.rmsnorm torchvision.transforms.functional.inner.part",
        "No module named 'no_such_package'",
    ]
    last = ended.stderr.splitlines()[-1]
    assert last == "NotImplementedError: sgl_kernel.rmsnorm was called, but its package is only a stand-in here"
