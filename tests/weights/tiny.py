"""Small checkpoints whose bytes follow from the tensors' names alone, and fingerprints of what was made of them.

The rule of the values, and the fingerprints of the reference's own results in ``data/``: tests/weights/data/README.md.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

Entry = tuple[str, str, tuple[int, ...]]
"""Name, type and shape of a tensor."""

_WIDTH = {"I8": 1, "F8_E4M3": 1, "BF16": 2, "F32": 4}


@dataclass(frozen=True)
class DeepSeek:
    """Sizes of a DeepSeek-shaped model with one int8 weight and one float scale per row for each linear layer."""

    hidden: int = 64
    vocabulary: int = 256
    layers: int = 4
    dense: int = 2
    inter: int = 128
    expert_inter: int = 32
    experts: int = 8
    heads: int = 8
    nope: int = 16
    rope: int = 8
    value: int = 16
    q_lora: int | None = 24
    kv_lora: int = 16
    mtp: int = 1
    shards: int = 3


TINY = DeepSeek()
VARIANTS: Mapping[str, DeepSeek] = {
    "dsv3-tiny": TINY,
    "dsv3-tiny-e16": replace(TINY, experts=16),
    "dsv3-tiny-nomtp": replace(TINY, mtp=0),
    "dsv2-tiny": replace(TINY, q_lora=None, mtp=0, shards=2, dense=1),
    "dsv3-b": replace(TINY, hidden=256, vocabulary=1024, inter=1024, expert_inter=256),
}


def linear(name: str, rows: int, columns: int) -> Iterator[Entry]:
    """Give an int8 linear layer."""
    yield f"{name}.weight", "I8", (rows, columns)
    yield f"{name}.weight_scale", "F32", (rows, 1)


def plain(name: str, *shape: int, dtype: str = "BF16") -> Iterator[Entry]:
    """Give a tensor that is not quantised."""
    yield name, dtype, shape


def swiglu(name: str, inter: int, hidden: int) -> Iterator[Entry]:
    """Give gate, up and down."""
    yield from linear(f"{name}.gate_proj", inter, hidden)
    yield from linear(f"{name}.up_proj", inter, hidden)
    yield from linear(f"{name}.down_proj", hidden, inter)


def deepseek(size: DeepSeek) -> Iterator[Entry]:
    """Give all tensors of a model."""
    yield from plain("model.embed_tokens.weight", size.vocabulary, size.hidden)
    for number in range(size.layers):
        yield from _layer(size, number, routed=number >= size.dense)
    for number in range(size.layers, size.layers + size.mtp):
        at = f"model.layers.{number}"
        yield from plain(f"{at}.embed_tokens.weight", size.vocabulary, size.hidden)
        yield from plain(f"{at}.enorm.weight", size.hidden)
        yield from plain(f"{at}.hnorm.weight", size.hidden)
        yield from plain(f"{at}.eh_proj.weight", size.hidden, 2 * size.hidden)
        yield from _layer(size, number, routed=True)
        yield from plain(f"{at}.shared_head.norm.weight", size.hidden)
        yield from plain(f"{at}.shared_head.head.weight", size.vocabulary, size.hidden)
    yield from plain("model.norm.weight", size.hidden)
    yield from plain("lm_head.weight", size.vocabulary, size.hidden)


def _layer(size: DeepSeek, number: int, *, routed: bool) -> Iterator[Entry]:
    at = f"model.layers.{number}"
    attention, mlp = f"{at}.self_attn", f"{at}.mlp"
    query = size.heads * (size.nope + size.rope)
    yield from plain(f"{at}.input_layernorm.weight", size.hidden)
    if size.q_lora is None:
        yield from linear(f"{attention}.q_proj", query, size.hidden)
    else:
        yield from linear(f"{attention}.q_a_proj", size.q_lora, size.hidden)
        yield from plain(f"{attention}.q_a_layernorm.weight", size.q_lora)
        yield from linear(f"{attention}.q_b_proj", query, size.q_lora)
    yield from linear(f"{attention}.kv_a_proj_with_mqa", size.kv_lora + size.rope, size.hidden)
    yield from plain(f"{attention}.kv_a_layernorm.weight", size.kv_lora)
    yield from linear(f"{attention}.kv_b_proj", size.heads * (size.nope + size.value), size.kv_lora)
    yield from linear(f"{attention}.o_proj", size.hidden, size.heads * size.value)
    if routed:
        yield from plain(f"{mlp}.gate.weight", size.experts, size.hidden)
        yield from plain(f"{mlp}.gate.e_score_correction_bias", size.experts, dtype="F32")
        for expert in range(size.experts):
            yield from swiglu(f"{mlp}.experts.{expert}", size.expert_inter, size.hidden)
        yield from swiglu(f"{mlp}.shared_experts", size.expert_inter, size.hidden)
    else:
        yield from swiglu(mlp, size.inter, size.hidden)
    yield from plain(f"{at}.post_attention_layernorm.weight", size.hidden)


def deepseek_config(size: DeepSeek) -> dict[str, Any]:
    """Give what a splitter needs of ``config.json``."""
    return {
        "architectures": ["DeepseekV2ForCausalLM" if size.q_lora is None else "DeepseekV3ForCausalLM"],
        "num_hidden_layers": size.layers,
        "n_routed_experts": size.experts,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "q_lora_rank": size.q_lora,
        "num_nextn_predict_layers": size.mtp,
        "tie_word_embeddings": False,
        "vocab_size": size.vocabulary,
    }


def values(name: str, dtype: str, shape: Iterable[int]) -> bytes:
    """Give the bytes of a tensor: a stream that follows from its name, shaped into sane numbers of its type."""
    count = prod(shape)
    stream = hashlib.shake_256(name.encode())
    if _WIDTH[dtype] == 1:
        return stream.digest(count)
    numbers = struct.unpack(f"<{count}H", stream.digest(2 * count))
    if dtype == "F32":
        return struct.pack(f"<{count}f", *((number + 1) / 2**20 for number in numbers))
    exponent = ((0x78 + ((number >> 7) & 7)) << 7 for number in numbers)
    return struct.pack(
        f"<{count}H", *(number & 0x807F | power for number, power in zip(numbers, exponent, strict=True))
    )


def write_shard(path: Path, entries: Iterable[Entry]) -> None:
    """Write a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body, offset = [], 0
    for name, dtype, shape in entries:
        data = values(name, dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        body.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))


def write_model(folder: Path, entries: Iterable[Entry], config: Mapping[str, Any], shards: int = 1) -> Path:
    """Write a checkpoint: tensors spread over shards by their names, an index, a configuration and other files."""
    folder.mkdir(parents=True)
    spread: list[list[Entry]] = [[] for _ in range(shards)]
    weight_map = {}
    for entry in entries:
        number = zlib.crc32(entry[0].encode()) % shards
        spread[number].append(entry)
        weight_map[entry[0]] = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
    for number, members in enumerate(spread):
        write_shard(folder / f"model-{number + 1:05d}-of-{shards:05d}.safetensors", members)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "generation_config.json").write_text("{}")
    (folder / "configuration_deepseek.py").write_text("# remote code\n")
    (folder / "figures").mkdir()
    (folder / "figures" / "note.txt").write_text("not for the runtime\n")
    return folder


def make(variant: str, folder: Path) -> Path:
    """Write one of the variants."""
    size = VARIANTS[variant]
    return write_model(folder, deepseek(size), deepseek_config(size), size.shards)


Prints = dict[str, dict[str, list[Any]]]
"""File (without its part) → parameter → type, shape and SHA-256 of its bytes."""


def fingerprints(folder: Path) -> Prints:
    """Read every safetensors file of a split; the parts of a rank count as one file."""
    found: Prints = {}
    for path in sorted(folder.rglob("*.safetensors")):
        raw = path.read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        base = 8 + length
        tensors = found.setdefault(_without_part(path.relative_to(folder).as_posix()), {})
        for name, entry in json.loads(raw[8:base]).items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                assert name not in tensors, f"{name} is in two parts of {path}"
                tensors[name] = [
                    entry["dtype"],
                    entry["shape"],
                    hashlib.sha256(raw[base + first : base + end]).hexdigest(),
                ]
    return found


def golden(path: Path, surplus: str | None = None) -> Prints:
    """Read the fingerprints of a reference result; tensors whose name ends in ``surplus`` are left out."""
    found: Prints = {}
    for name, file in json.loads(path.read_text())["files"].items():
        for tensor, print_ in file.get("tensors", {}).items():
            if surplus is None or not tensor.endswith(surplus):
                found.setdefault(_without_part(name), {})[tensor] = print_
    return found


def _without_part(name: str) -> str:
    name = name.removeprefix("m/").replace("m_mtp/", "mtp/")
    return name.rpartition("-part-")[0] or name
