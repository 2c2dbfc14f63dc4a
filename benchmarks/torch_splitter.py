"""The straightforward way, for comparison: load every tensor with torch, cut, and save what each rank gets.

python benchmarks/torch_splitter.py MODEL OUT RANKS ATTENTION_RANKS
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

torch = import_module("torch")
load_file = import_module("safetensors.torch").load_file
save_file = import_module("safetensors.torch").save_file

ROWS = ("q_b_proj", "kv_b_proj", "embed_tokens", "lm_head")
COLUMNS = ("o_proj", "down_proj")


def load(folder: Path) -> dict[str, Any]:
    """Load all shards."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def cut(tensor: Any, axis: int, ways: int, index: int) -> Any:
    """Take one of equal parts."""
    return tensor.chunk(ways, axis)[index].contiguous()


def shared(tensors: dict[str, Any], ways: int, index: int) -> dict[str, Any]:
    """Make what an attention rank gets of everything but routed experts."""
    part: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if ".experts." in name or "kv_a_proj" in name or ".up_proj." in name:
            continue
        if "q_a_proj" in name:
            both = torch.cat([tensor, tensors[name.replace("q_a_proj", "kv_a_proj_with_mqa")]])
            part[name.replace("q_a_proj", "fused_qkv_a_proj_with_mqa")] = cut(both, 0, ways, index)
        elif ".gate_proj." in name:
            up = tensors[name.replace("gate_proj", "up_proj")]
            halves = [cut(tensor, 0, ways, index), cut(up, 0, ways, index)]
            part[name.replace("gate_proj", "gate_up_proj")] = torch.cat(halves)
        elif any(word in name for word in ROWS):
            part[name] = cut(tensor, 0, ways, index)
        elif any(word in name for word in COLUMNS) and tensor.shape[-1] > 1:
            part[name] = cut(tensor, 1, ways, index)
        else:
            part[name] = tensor
    return part


def routed(tensors: dict[str, Any], expert: int) -> dict[str, Any]:
    """Make what a rank gets of the routed experts: one."""
    part: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if f".experts.{expert}.gate_proj." in name:
            both = torch.cat([tensor, tensors[name.replace("gate_proj", "up_proj")]])
            part[name.replace(f"{expert}.gate_proj.", "w13_")] = both[None]
        elif f".experts.{expert}.down_proj." in name:
            part[name.replace(f"{expert}.down_proj.", "w2_")] = tensor[None].contiguous()
    return part


def main() -> None:
    """Load, cut, save."""
    model, out, ranks, attention = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    out.mkdir(parents=True)
    tensors = load(model)
    for rank in range(ranks):
        save_file(shared(tensors, attention, rank % attention), out / f"model-rank-{rank}-part-0.safetensors")
        save_file(routed(tensors, rank), out / f"model-rank-{rank}-part-1.safetensors")


if __name__ == "__main__":
    main()
