"""Proxy variables: the engine's warm-up request and calls between ranks go through them unless told not to.

Seen as 502 or 403 in the middle of a start (sgl-project/sglang issues 9814, 27608, 28503).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network

from sgdeploy.facts.model import Finding
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, target_host
from sgdeploy.plan.model import Process

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Only these: the rest of a session's environment is none of our business."""

_SENDING = ("http_proxy", "all_proxy")
"""Variables that catch a plain http request, which all of the engine's own are."""


def wanted() -> Wanted:
    """Ask for the proxy variables of a session."""
    return Wanted(environ=_VARIABLES)


def proxies(raw: Raw) -> dict[str, str]:
    """Read the variables that are not empty, names in lower case, passwords replaced by ``***``."""
    found = raw.part("environ").items()
    return {name.lower(): re.sub(r"(?<=//)[^/@]*@", "***@", value) for name, value in found if value}


def check(subject: Subject) -> Iterator[Finding]:
    """Warn when a request to a planned address would go to a proxy."""
    caught: dict[str, str] = {}
    for process in subject.processes:
        env = _effective(subject.facts.proxies, process)
        sender = next((name for name in _SENDING if env.get(name)), None)
        addresses = (process.address, *(target_host(target) for target in process.connects.values()))
        if sender is not None:
            shown = f"{sender}={env[sender]}"
            caught.update({a: shown for a in addresses if a and not bypassed(a, env.get("no_proxy", ""))})
    if caught:
        listed = ",".join(sorted(caught))
        yield subject.warning(
            "proxy",
            f"{next(iter(caught.values()))} is set for processes here, and no_proxy does not cover {listed}",
            f"add `no_proxy: {listed}` to engine.env: warm-up and calls between ranks would go to the proxy",
        )


def _effective(session: Mapping[str, str], process: Process) -> dict[str, str]:
    planned = {name.lower(): str(v) for name, v in process.env.items() if name.lower().endswith("_proxy")}
    return {**session, **planned}


def bypassed(address: str, no_proxy: str) -> bool:
    """Tell whether ``no_proxy`` covers an address: ``*``, the address, a network, or a domain it lies in."""
    return any(_covers(entry.strip(), address) for entry in no_proxy.split(","))


def _covers(entry: str, address: str) -> bool:
    if entry in {"*", address}:
        return True
    with suppress(ValueError):
        return ip_address(address) in ip_network(entry, strict=False)
    domain = entry.lstrip("*.")
    return bool(domain) and address.endswith("." + domain)
