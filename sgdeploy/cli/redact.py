"""Keeping secrets out of what is written down about a command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from sgdeploy.console.stream import Secrets

HIDDEN = "[hidden]"
_SUSPICIOUS = r"(?:key|token|secret|passw|credential)"
_SUSPECT = re.compile(_SUSPICIOUS, re.IGNORECASE)
_ASSIGNMENT = re.compile(
    rf"""([\w.\[\]-]*{_SUSPICIOUS}[\w.\[\]-]*\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,'"]+)""", re.IGNORECASE
)
_SHORTEST = 4  # a shorter value would blot out half of every text, and protects nothing


def redact(text: str, environ: Mapping[str, str], names: Collection[str]) -> str:
    """Hide the values of secret variables, and whatever is assigned to a name that sounds like a secret.

    Args:
        text: any text.
        environ: environment variables.
        names: variables known to hold secrets, beside those whose names say so.
    """
    secrets = Secrets(_SHORTEST)
    secrets.learn({name: value for name, value in environ.items() if name in names or _SUSPECT.search(name)})
    return _ASSIGNMENT.sub(rf"\1{HIDDEN}", secrets.hide(text))


def redact_words(words: Sequence[str], environ: Mapping[str, str], names: Collection[str]) -> list[str]:
    """Hide secrets in the words of a command line, also where a flag and its value are words of their own."""
    safe = [redact(word, environ, names) for word in words]
    for index in range(1, len(safe)):
        if words[index - 1].startswith("-") and "=" not in words[index - 1] and _SUSPECT.search(words[index - 1]):
            safe[index] = HIDDEN
    return safe
