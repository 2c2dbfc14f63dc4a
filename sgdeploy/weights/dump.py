"""Runs under an engine's own Python: lists the parameters that it builds, before any weight is read.

``python dump.py FLAG...`` starts the engine with these flags. Each rank writes ``pp<stage>-tp<rank>.json`` into the
folder that SGDEPLOY_DUMP names as soon as its model is constructed; a file ``done`` says that all have, and they end.
Nothing of sgdeploy is imported here; Python 3.8 and newer. Worker processes import this file again as their main
module, which installs the hook in them.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

FOLDER = "SGDEPLOY_DUMP"
DRAFT = "SGDEPLOY_DUMP_DRAFT"
DONE = "done"
"""Name of the mark that every rank has written its file."""

LOADER = "sglang.srt.model_loader.loader"
CONSTRUCT = "_initialize_model"
WITHOUT_VIEWS = "_filter_subtensors"
"""Names inside the engine (0.5.23): where models are constructed, and what the sharded-state loader looks for."""


def parameters(model: Any, loader: Any) -> dict[str, Any]:
    """Give name → [type, shape] of what the sharded-state loader would look for."""
    without_views = getattr(loader.ShardedStateLoader, WITHOUT_VIEWS)
    state = without_views(model.state_dict())
    return {name: [str(each.dtype).replace("torch.", ""), list(each.shape)] for name, each in state.items()}


def dump(model: Any, loader: Any, folder: Path) -> None:
    """Write what this rank builds, and a mark once all ranks have; each file gets its name when it is whole."""
    distributed = importlib.import_module("sglang.srt.distributed.parallel_state")
    stage = distributed.get_pp_group().rank_in_group
    rank = distributed.get_tensor_model_parallel_rank()
    body = {"class": type(model).__name__, "params": parameters(model, loader)}
    partial = folder / f"pp{stage}-tp{rank}.partial"
    partial.write_text(json.dumps(body), encoding="utf-8")
    partial.replace(partial.with_suffix(".json"))
    distributed.get_world_group().barrier()
    (folder / DONE).touch()


def hook(loader: Any) -> None:
    """Make a loader module tell what it constructs."""
    construct = getattr(loader, CONSTRUCT)

    def construct_and_tell(*words: Any, **named: Any) -> Any:
        model = construct(*words, **named)
        if type(model).__name__.endswith("NextN") == bool(os.environ.get(DRAFT)):
            dump(model, loader, Path(os.environ[FOLDER]))
            os._exit(0)
        return model

    setattr(loader, CONSTRUCT, construct_and_tell)


class Finder(MetaPathFinder):
    """Finds the loader module and hooks it right after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Give the loader's own spec with a loader that hooks; None for every other module."""
        del target
        if name != LOADER:
            return None
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def load_and_hook(module: Any) -> None:
            load(module)
            hook(module)

        spec.loader.exec_module = load_and_hook
        return spec


if os.environ.get(FOLDER):
    sys.meta_path.insert(0, Finder())

if __name__ == "__main__":
    arguments = importlib.import_module("sglang.srt.server_args")
    launch = importlib.import_module("sglang.launch_server")
    launch.run_server(arguments.prepare_server_args(sys.argv[1:]))
