"""Runs under the engine's own Python: starts it, and tells what its loader has put into each parameter.

``python loaded.py FLAG...`` with LOADED naming a folder: each rank writes ``tp<rank>.json`` there, parameter → type,
shape and SHA-256 of its bytes, as soon as its weights are loaded; a file ``done`` says that all have. LOADED_PLAIN=1
leaves out the repacking after the load, as on CPUs that need none.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import json
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

LOADER = "sglang.srt.model_loader.loader"
QUANTISED = "sglang.srt.layers.quantization.base_config"
LOADERS = ("DefaultModelLoader", "ShardedStateLoader")


def tell(model: Any, loader: Any) -> None:
    """Write the fingerprints of this rank's parameters."""
    torch = importlib.import_module("torch")
    parallel = importlib.import_module("sglang.srt.distributed.parallel_state")
    state = loader.ShardedStateLoader._filter_subtensors(model.state_dict())
    prints = {}
    for name, tensor in state.items():
        body = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
        prints[name] = [str(tensor.dtype), list(tensor.shape), hashlib.sha256(body).hexdigest()]
    folder = Path(os.environ["LOADED"])
    (folder / f"tp{parallel.get_tensor_model_parallel_rank()}.json").write_text(json.dumps(prints))
    parallel.get_world_group().barrier()
    (folder / "done").touch()
    os._exit(0)


def leave(method: Any, layer: Any) -> None:
    """Leave a layer as it was loaded."""


def plain(base: Any) -> None:
    """Take the repacking out of every quantisation method."""
    for kind in base.__subclasses__():
        kind.process_weights_after_loading = leave
        plain(kind)


def hook(loader: Any) -> None:
    """Make both loaders tell what they have loaded."""
    for name in LOADERS:
        kind = getattr(loader, name)
        load = kind.load_model

        def load_and_tell(self: Any, *words: Any, load: Any = load, **named: Any) -> None:
            if os.environ.get("LOADED_PLAIN"):
                plain(importlib.import_module(QUANTISED).QuantizeMethodBase)
            tell(load(self, *words, **named), loader)

        kind.load_model = load_and_tell


class Finder(MetaPathFinder):
    """Hooks the loaders right after their import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Give the loader's spec, hooked; None for every other module."""
        del target
        if name != LOADER:
            return None
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_hook(module: Any) -> None:
            execute(module)
            hook(module)

        spec.loader.exec_module = execute_and_hook
        return spec


if os.environ.get("LOADED"):
    sys.meta_path.insert(0, Finder())

if __name__ == "__main__":
    arguments = importlib.import_module("sglang.srt.server_args")
    launch = importlib.import_module("sglang.launch_server")
    launch.run_server(arguments.prepare_server_args(sys.argv[1:]))
