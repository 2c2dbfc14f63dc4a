"""Write a Llama of 107,000 random parameters with a tokenizer of single bytes: ``python tiny_model.py FOLDER``.

Standard library only; the same folder comes out on every machine, byte for byte. The engine loads it in no time.
What it generates is noise: it is there to be served, not to be read.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPECIAL = ("<unk>", "<s>", "</s>", "<pad>")
HIDDEN, MIDDLE, LAYERS, HEADS, KV_HEADS = 64, 128, 2, 4, 2
VOCABULARY = 256 + len(SPECIAL)
KV = HIDDEN // HEADS * KV_HEADS
SPREAD = 0.8
"""Weights lie within this of 0: wide enough that different prompts have different continuations."""


def byte_names() -> list[str]:
    """Give the printable character that stands for each byte, as byte-level tokenizers have it.

    Printable bytes of Latin-1 stand for themselves, the others for characters from U+0100 on.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def config() -> dict[str, Any]:
    """Describe the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": MIDDLE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": 16384,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 3,
    }


def tokenizer() -> dict[str, Any]:
    """Describe a tokenizer whose tokens are the special ones and the 256 bytes."""
    names = [*SPECIAL, *byte_names()]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": name, **flags, "special": True} for number, name in enumerate(SPECIAL)
        ],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {name: number for number, name in enumerate(names)}, "merges": []},
    }


def tokenizer_config() -> dict[str, Any]:
    """Describe what surrounds the tokenizer."""
    unknown, begin, end, padding = SPECIAL
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": unknown,
        "bos_token": begin,
        "eos_token": end,
        "pad_token": padding,
        "chat_template": template,
    }


def shapes() -> dict[str, tuple[int, ...]]:
    """Give the tensors in the order of the file."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        inner = {
            "input_layernorm": (HIDDEN,),
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (KV, HIDDEN),
            "self_attn.v_proj": (KV, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "post_attention_layernorm": (HIDDEN,),
            "mlp.gate_proj": (MIDDLE, HIDDEN),
            "mlp.up_proj": (MIDDLE, HIDDEN),
            "mlp.down_proj": (HIDDEN, MIDDLE),
        }
        found.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in inner.items()})
    return {**found, "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}


def numbers() -> Iterator[float]:
    """Yield numbers between -1 and 1 that look random and are the same everywhere."""
    state = 1
    while True:
        state = (state * 1103515245 + 12345) % (1 << 31)  # the generator of the C standard's example
        yield state / (1 << 30) - 1.0


def bfloat16(values: list[float]) -> bytes:
    """Pack numbers: the upper half of a 32-bit float, little-endian."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return b"".join(packed[at + 2 : at + 4] for at in range(0, len(packed), 4))


def weights() -> bytes:
    """Give the content of a safetensors file: length of the header, header, data."""
    noise = numbers()
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, shape in shapes().items():
        count = shape[0] * (shape[1] if shape[1:] else 1)
        plain = "norm" in name
        packed = bfloat16([1.0 if plain else SPREAD * next(noise) for _ in range(count)])
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(folder: Path) -> None:
    """Write the model into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"config": config(), "tokenizer": tokenizer(), "tokenizer_config": tokenizer_config()}
    for name, part in parts.items():
        (folder / f"{name}.json").write_text(json.dumps(part, indent=1) + "\n", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
