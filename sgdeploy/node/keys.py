"""Secrets that an engine writes into its own log: they stay on the node.

The engine writes its key with all its arguments (``server_args={…, 'api_key': '…', …}``), and a library may quote the
header that carries it. What a secret is, only its name tells here; the controller knows values and hides these, too.
"""

from __future__ import annotations

import re

_NAME = r"(?:api[_-]?key|password|passwd|auth[_-]token)"
_SECRETS = re.compile(
    rf"""((?:\b|_){_NAME}['"]?\s*[:=]\s*|--[\w-]{{0,40}}{_NAME}(?:\s*[:=]\s*|\s+)|\bBearer\s+)"""
    r"""("[^"]*"|'[^']*'|(?!(?:None|null|True|False)\b)[^\s'",;)}\]]+)""",
    re.IGNORECASE,
)


def hide(text: str) -> str:
    """Give a text without what stands behind the name of a secret."""
    return _SECRETS.sub(r"\1'[hidden]'", text)
