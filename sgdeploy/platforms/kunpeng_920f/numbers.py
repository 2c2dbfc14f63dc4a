"""Every number and default of the platform, in one place.

Source: the vendor's own launch scripts of the generation that this platform follows, as captured from their runs.
Where the vendor's guide names another default, the value of the scripts stands here and docs/platforms names both.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sgdeploy.platforms.base import HTTP_ONLY, SKIP_HTTP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.profile.schema import FlagValue

NUMA_NODES = 16
"""Compute NUMA nodes of a host; one rank runs on each."""

CORES_PER_NODE = 38
"""Cores of a compute NUMA node (608 on a host)."""

CORE_OFFSET = 20
"""The rank's own core inside its NUMA node; the engine pins its further threads itself."""

HBM_NODE_OFFSET = 16
"""On-package memory of NUMA node r is NUMA node r + 16, which has no cores."""

HBM_PAGES = 2020
"""Hugepages of 2 MiB on each on-package node: 4,040 MiB for a pool of 4,000 MB."""

PAGE_MIB = 2

RENDEZVOUS_PORTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"native": (5010,), "prefill": (5000, 5020), "decode": (5010,)}
)
"""Of the first instances of each role; the second prefill is the one for long prompts."""

BOOTSTRAP_PORTS: Mapping[str, int] = MappingProxyType({"native": 9001, "prefill": 9001})
"""Roles that pass the bootstrap port on; decode does not."""

IB_DEVICES = tuple(f"roceroh{number}" for number in range(8))
"""RDMA devices of a host, shared evenly by its ranks."""

ROUTER_CORES = (228,)

DERIVED_PORTS = 38
"""Ports above the rendezvous port that the fork's processes take for themselves, by the scripts' own note."""

NIC = "enp26s0f0"

FLAGS: Mapping[str, FlagValue] = MappingProxyType(
    {
        "device": "cpu",
        "trust-remote-code": True,
        "attention-backend": "kunpeng_cpu",
        "moe-a2a-backend": "kunpeng_cpu",
        "dist-timeout": 600,
        "enable-dp-attention": True,
        "page-size": 64,
        "mem-fraction-static": 0.88,
        "chunked-prefill-size": -1,
        "skip-server-warmup": True,
        "disable-custom-all-reduce": True,
        "disable-radix-cache": True,
        "disable-overlap-schedule": True,
        "enable-dp-lm-head": True,
        "enable-dp-mlp": True,
        "quantization": "w8a8_int8",
    }
)
"""Flags of every role."""

ROLE_FLAGS: Mapping[str, Mapping[str, FlagValue]] = MappingProxyType(
    {
        "native": {"max-prefill-tokens": 4096, "max-total-tokens": 18496, "load-balance-method": "round_robin"},
        "prefill": {
            "max-prefill-tokens": 4096,
            "max-total-tokens": 18496,
            "prefill-max-requests": 4,
            "load-balance-method": "follow_bootstrap_room",
            "enable-dynamic-batch-tokenizer": True,
        },
        "decode": {
            "max-total-tokens": 139328,
            "load-balance-method": "follow_bootstrap_room",
            "decode-log-interval": 10,
            "num-reserved-decode-tokens": 256,
        },
    }
)

TOKENIZER_FLAGS: Mapping[str, FlagValue] = MappingProxyType(
    {
        "device": "cpu",
        "trust-remote-code": True,
        "dist-timeout": 600,
        "enable-dp-attention": True,
        "max-total-tokens": 64,
        "skip-server-warmup": True,
    }
)
"""Flags of the HTTP servers beside the router; they hold no weights."""

ROUTER_FLAGS: Mapping[str, FlagValue] = MappingProxyType({"policy": "cache_aware"})

MTP_FLAGS: Mapping[str, FlagValue] = MappingProxyType(
    {"speculative-algorithm": "NEXTN", "speculative-num-steps": 1, "speculative-eagle-topk": 1}
)
"""Added with multi-token prediction."""

HBW_POOL = "SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB"
"""Megabytes of the on-package pool for weights; the misspelling is the engine's."""

ENV: Mapping[str, str] = MappingProxyType(
    {
        # Threads: one OpenMP thread per rank; kupl has its own workers, 33 with asynchronous forward, else 32.
        "OMP_NUM_THREADS": "1",
        "OMP_PROC_BIND": "false",
        "KUPL_EXECUTOR_BACKEND": "pthread",
        "KUPL_EXECUTOR_COUNT": "33",
        "SGLANG_FORWARD_ASYNC": "1",
        "SGLANG_SET_CPU_AFFINITY": "1",
        # Which engine this is.
        "SGLANG_USE_CPU_920F": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_ENABLE_TORCH_COMPILE": "0",
        "TORCH_COMPILE_DISABLE": "1",
        "SGLANG_ENABLE_GRAPH_CAPTURE": "0",
        "SGLANG_ENABLE_GRAPH_PROFILE": "0",
        # Memory: weights in on-package memory, nothing swapped.
        "SGLANG_ENABLE_HBW_POOL": "1",
        HBW_POOL: "4000",
        "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0",
        "SGLANG_KUNPENG_SWAP_EXPERT": "0",
        "SGLANG_KUNPENG_SWAP_KV_BLOCKWISE": "0",
        "SGLANG_KUNPENG_SWAP_KV_IN": "0",
        "SGLANG_KUNPENG_SWAP_KV_OUT": "0",
        "SGLANG_KUNPENG_SWAP_MAX_KV_BLOCKS": "512",
        # Shared memory and transfer between ranks.
        "SGLANG_KUNPENG_DECODE_SHM_SIZE_MB": "50",
        "SGLANG_KUNPENG_PREFILL_SHM_SIZE_MB": "476",
        "SGLANG_KUNPENG_ENABLE_SHM_FENCE": "0",
        "SGLANG_KUNPENG_DISABLE_MLA_ALL2ALL": "0",
        "SGLANG_KUNPENG_RDMA_ALLGATHER": "1",
        "SGLANG_KUNPENG_SDMA_MAX_EVENTS": "10",
        "SGLANG_KUNPENG_SDMA_THRESHOLD": "5",
        "SGLANG_DISAGGREGATION_THREAD_POOL_SIZE": "4",
        # Looking on.
        "SGLANG_KUNPENG_PROFILE": "0",
        "SGLANG_LOG_MS": "1",
        "SGLANG_WARMUP_TIMEOUT": "1600",
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
)
"""Variables of every role."""

_PREFILL_SIDE = {"IS_PREFILL": "1", "SGLANG_KUNPENG_MAX_CUR_LEN": "1024", "SGLANG_KUNPENG_MAX_SEQ_NUM": "4"}
_DECODE_SIDE = {"IS_PREFILL": "0", "SGLANG_KUNPENG_MAX_CUR_LEN": "1", "SGLANG_KUNPENG_MAX_SEQ_NUM": "128"}

ROLE_ENV: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "native": _PREFILL_SIDE,
        "prefill": {**_PREFILL_SIDE, SKIP_HTTP: "1"},
        "decode": {**_DECODE_SIDE, SKIP_HTTP: "1"},
        "tokenizer": {**_DECODE_SIDE, HTTP_ONLY: "1"},
        "router": {**_DECODE_SIDE, HTTP_ONLY: "1"},
    }
)
"""The switches of separate tokenizers are always set; they work only where tokenizers are separate."""
