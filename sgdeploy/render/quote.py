"""The one place that quotes: text of any kind becomes one bash word, or one harmless line for people.

Templates get this as Jinja2's ``finalize`` hook, so a value that a template author forgets to quote is quoted.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import ClassVar

from jinja2 import Undefined

from sgdeploy.errors import SgdeployError
from sgdeploy.profile.variables import keeper

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RenderError(SgdeployError):
    """The plan holds something that no script can carry, or a template is broken."""

    exit_code: ClassVar[int] = 2


class Word(str):
    """Text that may stand in a script as it is: it has been quoted, or it is a harmless line."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def word(text: str) -> str:
    """Quote any text so that bash reads it as exactly one word and gives it on unchanged.

    What was quoted is remembered: the ranks of a deployment share nearly all of their flags.

    Args:
        text: anything a process may get as an argument: newlines, quotes, ``$``, a leading dash, non-ASCII.

    Raises:
        RenderError: the text holds a NUL, which no argument can, or half a character (a lone surrogate).
    """
    if "\0" in text:
        raise RenderError(
            f"{text!a} holds a NUL character, which no argument and no variable of a process can hold",
            hint="remove \\0 from the value in the profile",
        )
    if not text.isascii():
        _refuse_half_characters(text)
    return Word(shlex.quote(text))


def path(text: str) -> str:
    """Quote a path for ``cd`` and ``source``: ``~/`` is the home folder on the host, a relative path stays one.

    Raises:
        RenderError: as in ``word``.
    """
    if text == "~" or text.startswith("~/"):
        rest = text[2:]
        return Word('"$HOME"' + (f"/{word(rest)}" if rest else ""))
    # A bare name would be looked up in PATH by `source` and in CDPATH by `cd`; "-" would be the folder before.
    return word(text if text.startswith("/") else f"./{text}")


def variable(name: str) -> str:
    """Give the name of an environment variable back if bash can set it.

    Raises:
        RenderError: it is no variable name, or one that nobody may set.
    """
    if not _NAME.fullmatch(name):
        raise RenderError(
            f"{name!a} is no name of an environment variable",
            hint="use letters, digits and underscores, and no digit in front",
        )
    owner = keeper(name)
    if owner is not None:
        raise RenderError(
            f"the variable {name} belongs to {owner}, so its value would not reach the process",
            hint=f"remove {name} from env",
        )
    return Word(name)


def plain(text: object) -> str:
    """Make one line of text for a comment or a note: what cannot be printed becomes a question mark."""
    line = str(text)
    if not line.isprintable():
        line = "".join(char if char.isprintable() else "?" for char in line)
    return Word(line)


def final(value: object) -> object:
    """Quote what a template puts out, unless it was quoted before (Jinja2 ``finalize``).

    Undefined values are left to Jinja2, which says best what is undefined.

    Raises:
        RenderError: as in ``word``, or the value is neither text nor a whole number.
    """
    if type(value) is Word or type(value) is int:
        return value
    if isinstance(value, str):
        return word(value)
    if isinstance(value, Undefined):
        return value
    raise RenderError(f"a template puts out {value!a}, which is no text", hint="name the field of it that is meant")


def _refuse_half_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RenderError(
            f"{text!a} cannot be written as UTF-8 ({error.reason})",
            hint="write the value in UTF-8",
        ) from None
