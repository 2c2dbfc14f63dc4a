"""A two-bucket deployment in a lab, with the real router: its profile, its traffic, and who served what."""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.deployments import write_inventory
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

SHORT, LONG, DECODE, ROUTER = "n01", "n02", "n03", "n04"
FOLDER = "/var/lib/sgdeploy/split"
PORT, METRICS = 30000, 29000
NEVER = 1_000_000_000
"""A threshold that no traffic reaches: the router's load rule is off."""

QUICK = {"SGDEPLOY_REHEARSE_SPEED": "4", "SGDEPLOY_REHEARSE_HEALTH_SECONDS": "0.05"}
NO_NETWORK = {"HF_ENDPOINT": "http://127.0.0.1:9"}
"""The router looks for tokenizers of models; it shall not look outside of the lab."""

_BOUNDARY = re.compile(r"After adjusting boundary.*?range: \[0, (\d+)\]")
_END = re.compile(r"After adjusting boundary|No need to adjust the bucket boundaries")
_INIT = re.compile(r"Init boundary:\[Boundary \{ url: \"([^\"]+)\".*?\}, Boundary")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def split_profile(
    lab: Lab,
    folder: Path,
    *,
    threshold: int = NEVER,
    interval: int = 3,
    stall: str = "40s",
    flags: Mapping[str, Any] | None = None,
    tokenizers: bool = False,
    **env: Mapping[str, str],
) -> Path:
    """Write a profile of two prefill instances, a decode and the router, each on a host of its own.

    Args:
        lab: of four hosts.
        folder: what the profile goes into.
        threshold: characters from which the router's load rule acts.
        interval: seconds after which the router moves its boundary.
        stall: of ``health``.
        flags: further flags of the router.
        tokenizers: HTTP servers beside the router instead of in the instances.
        env: variables of ``short``, ``long`` and ``decode``.
    """
    write_inventory(lab, folder)
    role = {name: json.dumps(dict(env.get(name, {}))) for name in ("short", "long", "decode")}
    text = f"""\
version: 1
name: split
topology: two-bucket-prefill
platform: cpu
inventory: inventory.yaml
model: {{path: /models/none, served_name: split}}
engine:
  version: {"kunpeng" if tokenizers else "0.5.23"}
  executable: rehearsal
  flags: {{max-total-tokens: 8192}}
  env: {json.dumps(QUICK)}
prefill:
  short: {{hosts: {SHORT}, parallel: {{tp: 1}}, env: {role["short"]}}}
  long: {{hosts: {LONG}, parallel: {{tp: 1}}, env: {role["long"]}}}
decode: {{hosts: {DECODE}, parallel: {{tp: 1}}, env: {role["decode"]}}}
router:
  host: {ROUTER}
  port: {PORT}
  version: "0.3.2"
  tokenizer: {"separate" if tokenizers else "inside"}
  python: {sys.executable}
  bucket: {{balance_abs_threshold: {threshold}, balance_rel_threshold: 1.5, adjust_interval_secs: {interval}}}
  flags: {json.dumps({"health-check-interval-secs": 2, **(flags or {})})}
  env: {json.dumps(NO_NETWORK)}
health: {{timeout: 60s, stall: {stall}, grace: 5s}}
"""
    path = folder / "split.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def log_of(host: LabHost) -> str:
    """Give the whole log of the only process of a host, without colours."""
    file = next(host.path(f"{FOLDER}/{host.name}/logs").glob("*.log"))
    return _COLOUR.sub("", file.read_text(encoding="utf-8", errors="replace"))


def first_bucket(log: str) -> str:
    """Give the URL of the bucket for short prompts, as a router's log said it last."""
    urls: list[str] = _INIT.findall(_COLOUR.sub("", log))
    return urls[-1]


@dataclass(frozen=True)
class Traffic:
    """Prompts sent to a router from the client, and the prefill instances' own logs as witnesses."""

    lab: Lab

    def send(self, size: int) -> str:
        """Send one prompt of so many characters; give the host of the prefill whose log shows it."""
        before = self._served()
        with self.lab.inside():
            line = http.client.HTTPConnection(self.lab.host(ROUTER).address, PORT, timeout=20)
            body = json.dumps({"model": "split", "prompt": "x" * size, "max_tokens": 2})
            line.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = line.getresponse()
            text = answer.read()
            line.close()
        assert answer.status == 200, text
        wait_until(lambda: self._served() != before, f"the request of {size} characters in a prefill's log")
        (host,) = (name for name, count in self._served().items() if count != before[name])
        return host

    def burst(self, size: int, count: int = 12) -> None:
        """Send prompts of one size, and wait for the end of the interval: now the boundary is that size."""
        for _ in range(count):
            self.send(size)
        ends = self._ends()
        wait_until(lambda: self._ends() > ends, "the end of the interval", 20)
        assert _BOUNDARY.findall(log_of(self.lab.host(ROUTER)))[-1] == str(size)

    def _ends(self) -> int:
        """Count the ends of intervals that the router has told."""
        return len(_END.findall(log_of(self.lab.host(ROUTER))))

    def _served(self) -> dict[str, int]:
        return {name: log_of(self.lab.host(name)).count('"POST /v1/completions') for name in (SHORT, LONG)}
