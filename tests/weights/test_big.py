"""The real thing's sizes: a plan for DeepSeek V3 from headers alone, and little memory whatever the model weighs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import sgdeploy
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.disk.request import Prepared, Request, prepare
from tests.weights.planning import wish
from tests.weights.tiny import DeepSeek, Entry, deepseek, deepseek_config

V3 = DeepSeek(
    hidden=7168,
    vocabulary=129280,
    layers=61,
    dense=3,
    inter=18432,
    expert_inter=2048,
    experts=256,
    heads=128,
    nope=128,
    rope=64,
    value=128,
    q_lora=1536,
    kv_lora=512,
    mtp=1,
)
SHARD = 4_300_000_000
KUNPENG = Sizes(tp=256, dp=16, ep=256)
_WIDTH = {"I8": 1, "BF16": 2, "F32": 4}


def sparse(folder: Path, entries: Iterable[Entry], config: dict[str, Any], most: int = SHARD) -> Path:
    """Write shards whose headers are real and whose weights are holes."""
    folder.mkdir()
    weight_map: dict[str, str] = {}
    header: dict[str, Any] = {}
    number = end = 0

    def close() -> None:
        nonlocal number, end
        text = json.dumps(header).encode()
        with (folder / f"model-{number:05d}.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        number, end = number + 1, 0
        header.clear()

    for name, dtype, shape in entries:
        size = _WIDTH[dtype]
        for length in shape:
            size *= length
        if header and end + size > most:
            close()
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        weight_map[name] = f"model-{number:05d}.safetensors"
        end += size
    close()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the headers of DeepSeek V3 in int8, 92 thousand tensors."""
    return sparse(tmp_path_factory.mktemp("v3") / "model", deepseek(V3), deepseek_config(V3))


def planned(model: Path, sizes: Sizes = KUNPENG, **more: Any) -> Prepared:
    return prepare(Request(model, None, wish("kunpeng", sizes, **more), nodes=16))


def test_the_plan_of_deepseek_v3(v3: Path) -> None:
    """The numbers were computed independently, from the model's sizes alone."""
    began = time.process_time()
    found = planned(v3)
    assert time.process_time() - began < 10, "planning from headers must take seconds"
    report = found.report
    assert (report.tensors, len(report.classes)) == (91991, 12)
    assert report.read == pytest.approx(689.11e9, rel=1e-4)
    assert report.stored == pytest.approx(692.4e9, rel=2e-4)
    assert report.written == pytest.approx(1091.1e9, rel=2e-4)
    assert report.node == pytest.approx(68.2e9, rel=2e-4)
    assert (report.files, report.links) == (1024, 480)
    by_class = {row.name: row for row in report.classes}
    assert round(by_class["experts"].read / 1e9) == 666
    assert by_class["router"].rule == "whole"
    assert by_class["fused_qkv_a"].rule == "attention TP 16"


def test_the_plan_without_multi_token_prediction(v3: Path) -> None:
    report = planned(v3, mtp="drop").report
    assert report.stored == pytest.approx(677.0e9, rel=2e-4)
    assert report.written == pytest.approx(1012.6e9, rel=2e-4)
    (drop,) = report.dropped
    assert drop.reason == "multi-token prediction is left out (--mtp drop)"
    assert (drop.tensors, round(drop.size / 1e7)) == (1564, 1543)


LIMIT = 400_000_000

LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
from sgdeploy.cli.app import main
code = main(["split-weights", "--model", sys.argv[1], "--out", sys.argv[2], "--tp", "4", "--workers", "2", "--json"])
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("hashed", ["--hash", "--no-hash"])
def test_memory_does_not_grow_with_the_model(tmp_path: Path, hashed: str) -> None:
    """A checkpoint of 680 MB under a limit of 400 MB of addresses, with tensors of 67 MB."""
    size = DeepSeek(hidden=2048, vocabulary=32768, layers=2, dense=2, inter=32768, q_lora=512, mtp=0)
    model = sparse(tmp_path / "model", deepseek(size), deepseek_config(size))
    total = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    assert total > 650_000_000
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            LIMITED.replace('"--json"', f'"--json", "{hashed}"'),
            model,
            tmp_path / "out",
            str(400_000_000),
        ],
        cwd=Path(sgdeploy.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stderr.split()[-1]) < 100_000 + 2 * 8 * 1024, "kilobytes of resident memory"
    written = sum(path.stat().st_size for path in (tmp_path / "out").glob("model-rank-*"))
    assert written > total * 0.99
