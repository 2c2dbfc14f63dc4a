"""Profiles written in a test, compiled through the room's own door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from sgdeploy.errors import ProfileError
from sgdeploy.plan.compile import Compiled, compile_profile
from sgdeploy.problems import Problem

Compile: TypeAlias = Callable[..., Compiled]
Refuse: TypeAlias = Callable[..., tuple[Problem, ...]]

KUNPENG = """
version: 1
name: dsv3
topology: native
platform: kunpeng-920f
inventory: {ssh: {user: root}}
model: {path: /opt/model}
engine: {version: kunpeng, launch: rank, numa_copies: true}
native:
  hosts: "10.0.0. | 1-16"
  parallel: {tp: 256}
"""

CPU = """
version: 1
name: tiny
topology: native
platform: cpu
inventory:
  groups:
    pair: [{host: n1, address: 10.0.1.1}, {host: n2, address: 10.0.1.2}]
    spare: [{host: n3, address: 10.0.1.3}, {host: n4, address: 10.0.1.4}]
model: {path: /models/tiny, served_name: tiny}
engine: {flags: {max-total-tokens: 8192}}
native:
  hosts: pair
  parallel: {tp: 2}
"""

NAMED = CPU.replace(
    "native:\n  hosts: pair\n  parallel: {tp: 2}",
    "native:\n  a: {hosts: pair, parallel: {tp: 2}}\n  b: {hosts: spare, parallel: {tp: 2}}",
)

PD = """
version: 1
name: split
topology: pd
platform: cpu
inventory:
  hosts:
    - {host: p1, address: 10.0.1.1}
    - {host: p2, address: 10.0.1.2}
    - {host: d1, address: 10.0.1.3}
    - {host: d2, address: 10.0.1.4}
    - {host: gw, address: 10.0.1.9}
model: {path: /models/tiny, served_name: tiny}
engine: {flags: {max-total-tokens: 8192}}
prefill: {hosts: p1}
decode: {hosts: [d1, d2], parallel: {tp: 2}}
router: {host: gw}
"""

BUCKETS = (
    PD.replace("topology: pd", "topology: two-bucket-prefill")
    .replace("prefill: {hosts: p1}", "prefill:\n  long: {hosts: p2}\n  short: {hosts: p1}")
    .replace("router: {host: gw}", "router:\n  host: gw\n  bucket: {balance_abs_threshold: 1000000000}")
)

KUNPENG_PD = """
version: 1
name: dsv3
topology: pd
platform: kunpeng-920f
inventory: {ssh: {user: root}}
model: {path: /opt/model}
engine: {version: kunpeng, launch: rank, numa_copies: true}
prefill:
  a: {hosts: "10.0.0. | 1", parallel: {tp: 16}}
  b: {hosts: "10.0.0. | 2-3", parallel: {tp: 32}}
  c: {hosts: "10.0.0. | 4", parallel: {tp: 16}}
decode: {hosts: "10.0.0. | 5", parallel: {tp: 16}}
router: {host: 10.0.0.9}
"""


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a profile's text with ``--set`` texts."""

    def run(text: str, *overrides: str, overlays: Sequence[Path] = ()) -> Compiled:
        file = tmp_path / "profile.yaml"
        file.write_text(text, encoding="utf-8")
        return compile_profile(file, overrides, overlays)

    return run


@pytest.fixture
def refused(compiled: Compile) -> Refuse:
    """Compile what must be refused and give the errors, without the warnings."""

    def run(text: str, *overrides: str) -> tuple[Problem, ...]:
        with pytest.raises(ProfileError) as caught:
            compiled(text, *overrides)
        return tuple(problem for problem in caught.value.problems if problem.level == "error")

    return run
