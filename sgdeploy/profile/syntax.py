"""What a YAML parser's complaint means, in an operator's words and at the spot where the mistake is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from yaml.reader import ReaderError

from sgdeploy.problems import Problem

if TYPE_CHECKING:
    from sgdeploy.profile.source import Source

_MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    ("found character '\\t'", "a tab cannot indent YAML", "use spaces"),
    (
        "mapping values are not allowed",
        "a `:` where no key can stand",
        'check the indentation; put text that holds ": " in quotes',
    ),
    ("could not find expected ':'", "a key without `:`", "write `key: value`, with a space after the colon"),
    ("unexpected end of stream", "the quote that opens here is never closed", None),
    ("expected ',' or '}'", "a `{` that opens here is not closed properly", "separate entries by `,` and end with `}`"),
    ("expected ',' or ']'", "a `[` that opens here is not closed properly", "separate items by `,` and end with `]`"),
    (
        "expected <block end>, but found '<block mapping start>'",
        "this line is indented differently from those above",
        None,
    ),
    ("expected <block end>, but found", "this does not fit the lines above", "check indentation, quotes and dashes"),
    ("found undefined alias", "an alias (`*name`) whose anchor (`&name`) does not come before it", None),
    ("found duplicate anchor", "the same anchor (`&name`) is set twice", None),
    ("but found another document", "a second document starts here; a file holds one", "remove this `---`"),
    (
        "found unknown escape character",
        "an escape that YAML does not know inside double quotes",
        "use single quotes, or write `\\\\` for a backslash",
    ),
    ("cannot start any token", "a character that cannot start a value", "put the value in quotes"),
    (
        "expected alphabetic or numeric character",
        "`*` and `&` mark aliases and anchors",
        "put text that begins with one in quotes",
    ),
    (
        "sequence entries are not allowed",
        "a list item (`- `) where none can stand",
        "begin the list on a line of its own",
    ),
)
_AT_CONTEXT = ("unexpected end of stream", "could not find expected ':'", "expected ',' or '}'", "expected ',' or ']'")
"""Complaints that the parser makes far behind the mistake; the construct that was open tells more."""

TOO_DEEP = "nested too deeply; this is no profile or inventory"


def compose_problem(error: yaml.YAMLError, source: Source) -> Problem:
    """Translate an error of the parser."""
    if isinstance(error, ReaderError):
        place = source.place_at(error.position)
        code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
        return Problem(
            f"a control character (U+{code:04X}) that YAML forbids", "remove it", place=place, code="yaml-syntax"
        )
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(str(error), place=source.place(0, 0), code="yaml-syntax")
    text = error.problem or error.context or "not YAML"
    message, hint = text, None
    mark = error.problem_mark or error.context_mark
    for pattern, meaning, step in _MEANINGS:
        if pattern in text:
            message, hint = meaning, step
            if pattern in _AT_CONTEXT and error.context_mark is not None:
                mark = error.context_mark
            break
    place = source.place(0, 0) if mark is None else source.place(mark.line, mark.column)
    return Problem(message, hint, place=place, code="yaml-syntax")
