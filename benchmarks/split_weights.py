"""How long a split takes beside `cp` of the same bytes, and beside a splitter that loads everything with torch.

The checkpoint has the shape of DeepSeek V3 in int8 with 12 layers and 64 experts. `cp` copies what the split without
links has written. The figures of memory are the peak resident megabytes of the whole program; less than ten
cannot be seen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from benchmarks.measure import CHECKOUT, Aim, Figures, Rival, Table, in_turn, keep, output

RANKS, GROUPS = 64, 4
WIDTH = {"I8": 1, "F32": 4, "BF16": 2}
SHARD = 1_000_000_000
CP, PLAIN, HASHED, DEFAULT = "cp", "no links, no hash", "no links, sha256", "links, sha256 (default)"
LINKED = "links, no hash"
TORCH, PLAN, MEMORY = "load everything (torch)", "split-weights --plan", "memory"

BETWEEN = """
import resource, subprocess, sys, time
began = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - began
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(code)
"""

Entry = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    """Sizes of a DeepSeek-V3-shaped int8 model."""

    layers: int
    dense: int
    experts: int
    hidden: int
    inter: int
    expert_inter: int
    heads: int
    vocabulary: int
    q_lora: int
    kv_lora: int


BENCH = Model(12, 3, RANKS, 2048, 4096, 896, 64, 32768, 768, 256)
V3 = Model(61, 3, 256, 7168, 18432, 2048, 128, 129280, 1536, 512)


def linear(name: str, rows: int, columns: int) -> Iterator[Entry]:
    """Give a linear layer and its scales."""
    yield f"{name}.weight", "I8", (rows, columns)
    yield f"{name}.weight_scale", "F32", (rows, 1)


def swiglu(name: str, inter: int, hidden: int) -> Iterator[Entry]:
    """Give gate, up and down."""
    yield from linear(f"{name}.gate_proj", inter, hidden)
    yield from linear(f"{name}.up_proj", inter, hidden)
    yield from linear(f"{name}.down_proj", hidden, inter)


def tensors(model: Model) -> Iterator[Entry]:
    """Give all tensors."""
    hidden = model.hidden
    yield "model.embed_tokens.weight", "BF16", (model.vocabulary, hidden)
    for number in range(model.layers):
        at = f"model.layers.{number}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{norm}.weight", "BF16", (hidden,)
        yield from linear(f"{at}.self_attn.q_a_proj", model.q_lora, hidden)
        yield f"{at}.self_attn.q_a_layernorm.weight", "BF16", (model.q_lora,)
        yield from linear(f"{at}.self_attn.q_b_proj", model.heads * 192, model.q_lora)
        yield from linear(f"{at}.self_attn.kv_a_proj_with_mqa", model.kv_lora + 64, hidden)
        yield f"{at}.self_attn.kv_a_layernorm.weight", "BF16", (model.kv_lora,)
        yield from linear(f"{at}.self_attn.kv_b_proj", model.heads * 256, model.kv_lora)
        yield from linear(f"{at}.self_attn.o_proj", hidden, model.heads * 128)
        if number < model.dense:
            yield from swiglu(f"{at}.mlp", model.inter, hidden)
            continue
        yield f"{at}.mlp.gate.weight", "BF16", (model.experts, hidden)
        yield f"{at}.mlp.gate.e_score_correction_bias", "F32", (model.experts,)
        yield from swiglu(f"{at}.mlp.shared_experts", model.expert_inter, hidden)
        for expert in range(model.experts):
            yield from swiglu(f"{at}.mlp.experts.{expert}", model.expert_inter, hidden)
    yield "model.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (model.vocabulary, hidden)


def write(folder: Path, model: Model, shard: int, *, sparse: bool) -> int:
    """Write a checkpoint, with random bytes or holes; gives its bytes."""
    folder.mkdir(parents=True)
    spread: list[list[Entry]] = [[]]
    end = total = 0
    for entry in tensors(model):
        size = prod(entry[2]) * WIDTH[entry[1]]
        if spread[-1] and end + size > shard:
            spread.append([])
            end = 0
        spread[-1].append(entry)
        end += size
        total += size
    block = os.urandom(1 << 24)
    weight_map: dict[str, str] = {}
    for number, members in enumerate(spread, start=1):
        name = f"model-{number:05d}-of-{len(spread):05d}.safetensors"
        weight_map |= dict.fromkeys((entry[0] for entry in members), name)
        _shard(folder / name, members, None if sparse else block)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    config = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": model.layers,
        "n_routed_experts": model.experts,
        "num_attention_heads": model.heads,
        "q_lora_rank": model.q_lora,
        "num_nextn_predict_layers": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return total


def _shard(path: Path, members: list[Entry], block: bytes | None) -> None:
    header, end = {}, 0
    for name, dtype, shape in members:
        size = prod(shape) * WIDTH[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if block is None:
            file.truncate(8 + len(text) + end)
        while block is not None and end:
            end -= file.write(block[: min(end, len(block))])


# What is compared


def timed(words: Sequence[str | Path]) -> Figures:
    """Run a program; gives its wall seconds and its peak resident memory in megabytes.

    A small Python stands between: the kernel counts the memory of whoever forks as the child's, until that runs its own
    program.
    """
    seconds, memory = map(float, output([sys.executable, "-I", "-S", "-c", BETWEEN, *words], cwd=CHECKOUT).split())
    return {"": seconds, MEMORY: memory}


def ours(model: Path, out: Path, *more: str) -> list[str | Path]:
    """Give the command that splits."""
    sizes = ("--scheme", "kunpeng", "--tp", str(RANKS), "--dp", str(GROUPS), "--workers", "2")
    return [sys.executable, "-m", "sgdeploy", "split-weights", "--model", model, "--out", out, *sizes, *more]


def beside(base: Path, engine: str | None, runs: int) -> Table:
    """Make the checkpoint and run all rivals in turn; the cache is warm."""
    model, kept, out = base / "model", base / "kept", base / "out"
    total = write(model, BENCH, SHARD, sparse=False)
    timed(ours(model, kept, "--replicas", "copy", "--no-hash"))

    def fresh(*command: str | Path) -> Figures:
        shutil.rmtree(out, ignore_errors=True)
        return timed(command)

    rivals: dict[str, Rival] = {
        CP: lambda: fresh("cp", "-r", kept, out),
        PLAIN: lambda: fresh(*ours(model, out, "--replicas", "copy", "--no-hash")),
        HASHED: lambda: fresh(*ours(model, out, "--replicas", "copy")),
        DEFAULT: lambda: fresh(*ours(model, out)),
        LINKED: lambda: fresh(*ours(model, out, "--no-hash")),
    }
    if engine is not None:
        script = Path(__file__).with_name("torch_splitter.py")
        rivals[TORCH] = lambda: fresh(engine, script, model, out, str(RANKS), str(RANKS // GROUPS))
    written = sum(path.stat().st_size for path in kept.iterdir())
    title = f"{total / 1e9:.2f} GB into {written / 1e9:.2f} GB for {RANKS} ranks (memory in MB)"
    return Table(title, CP, series=in_turn(rivals, runs))


def planned(base: Path, runs: int) -> Table:
    """Time --plan on the headers of DeepSeek V3."""
    model = base / "v3"
    write(model, V3, 4_300_000_000, sparse=True)
    words: list[str | Path] = [sys.executable, "-m", "sgdeploy", "split-weights", "--model", model, "--plan"]
    words += ["--scheme", "kunpeng", "--tp", "256", "--dp", "16"]
    return Table("DeepSeek V3, headers alone", "", series=in_turn({PLAN: lambda: timed(words)}, runs))


def main() -> None:
    """Measure and print; nothing is left in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with 25 GB of room, on the disk that is to be measured")
    parser.add_argument("--engine", help="Python with torch and safetensors (./dev engine makes one)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the figures there as JSON")
    given = parser.parse_args()
    base = given.folder / "split-weights-benchmark"
    shutil.rmtree(base, ignore_errors=True)
    try:
        tables = [beside(base, given.engine, given.runs), planned(base, given.runs)]
    finally:
        shutil.rmtree(base, ignore_errors=True)
    aims = [Aim(PLAIN, 1.1, CP), Aim(HASHED, 1.3, CP), Aim(f"{DEFAULT}, {MEMORY}", 100 + 2 * 8, worst=True, unit="MB")]
    if given.engine is not None:
        aims += [Aim(LINKED, 1 / 3, TORCH), Aim(DEFAULT, 1 / 3, TORCH)]  # it neither links nor hashes
    tables[0].show(aims)
    tables[1].show([Aim(PLAN, 3.0)])
    keep(tables, given.keep)


if __name__ == "__main__":
    main()
