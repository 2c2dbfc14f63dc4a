"""How an address and a port are written together, wherever flags, messages and URLs need them."""

from __future__ import annotations


def endpoint(address: str, port: int) -> str:
    """Give ``address:port``; an IPv6 address stands in brackets (RFC 3986), or its last group would be read as port."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
