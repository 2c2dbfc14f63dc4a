"""Which keys the plan's own flags and fields follow from.

A key begins at the top of the profile, or at the instance (``*``); ``@address`` is a detail of the process's host in
the inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Keys: TypeAlias = "tuple[str, ...]"

ENGINE_FLAGS: Mapping[str, Keys] = {
    "host": ("@address",),
    "port": ("*.port", "engine.launch"),
    "nnodes": ("*.hosts",),
    "node-rank": ("*.hosts", "*.leader"),
    "dist-init-addr": ("*.rendezvous.port", "*.hosts", "*.leader"),
    "tp-rank-in-node": ("engine.launch",),
    "tp-size": ("*.parallel.tp",),
    "pp-size": ("*.parallel.pp",),
    "dp-size": ("*.parallel.dp",),
    "ep-size": ("*.parallel.ep",),
    "model-path": ("*.model_path", "model.path"),
    "served-model-name": ("model.served_name",),
    "disaggregation-mode": ("topology",),
    "disaggregation-bootstrap-port": ("*.bootstrap_port",),
    "disaggregation-ib-device": ("@ib_devices",),
    "config": (),
}
"""Flags of ranks that the plan owns."""

TOKENIZER_FLAGS: Mapping[str, Keys] = {
    **ENGINE_FLAGS,
    "host": ("router.host", "@address"),
    "port": ("router.tokenizers.port",),
    "nnodes": ("router.tokenizer",),
    "node-rank": ("router.tokenizer",),
    "tp-size": ("router.tokenizer",),
    "dp-size": ("router.tokenizer",),
}
"""The same of the HTTP servers beside the router."""

ROUTER_FLAGS: Mapping[str, Keys] = {
    "host": ("router.host", "@address"),
    "port": ("router.port",),
    "policy": ("router.policy",),
    "prefill-policy": ("router.prefill_policy", "router.policy", "topology"),
    "decode-policy": ("router.decode_policy",),
    "bucket-adjust-interval-secs": ("router.bucket.adjust_interval_secs",),
    "prefill-short-count": ("router.groups.short_count",),
    "prefill-length-threshold": ("router.groups.length_threshold",),
    "pd-disaggregation": ("topology",),
    "prefill": ("prefill", "router.tokenizer"),
    "decode": ("decode", "router.tokenizer"),
    "worker-urls": ("prefill", "decode"),
    "mini-lb": (),
    "service-discovery": (),
}
"""Flags of the router that the plan owns."""

FIELDS: Mapping[str, Keys] = {
    "program": ("engine.executable", "engine.python", "engine.launch"),
    "cores": ("*.cores", "node.pin"),
    "memory_nodes": ("*.memory_nodes",),
    "hugepages": (),
    "devices": ("@ib_devices",),
    "activate": ("engine.activate",),
    "cwd": ("engine.cwd",),
    "node_rank": ("*.hosts", "*.leader"),
    "leader": ("*.hosts", "*.leader"),
    "address": ("@address",),
    "listens": ("*.port", "*.rendezvous.port", "*.bootstrap_port"),
    "connects": ("*.rendezvous.port", "*.hosts"),
}
"""Fields of a process that are no flag and no variable."""
