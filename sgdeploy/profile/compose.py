"""YAML text → a tree of nodes with places. Safe by construction: no tag ever makes an object."""

from __future__ import annotations

import yaml

from sgdeploy.problems import Place, Problem
from sgdeploy.profile import core
from sgdeploy.profile.nodes import Node
from sgdeploy.profile.source import Source
from sgdeploy.profile.syntax import TOO_DEEP, compose_problem

_MAX_VALUES = 100_000
"""Aliases can make a short file stand for billions of values; nobody's cluster needs more than this."""
_MAX_DEPTH = 64


class _RefusedError(Exception):
    """The file as a whole cannot be used; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def compose(source: Source) -> tuple[Node | None, list[Problem]]:
    """Parse one document.

    Returns:
        The tree, or None where the text is empty or no YAML; and the problems (a syntax error is always the only one,
        since the parser stops there).
    """
    try:
        top = yaml.compose(source.text, Loader=core.CoreLoader)
        if top is None:
            return None, []
        builder = _Builder(source)
        node = builder.build(top, None)
    except yaml.YAMLError as error:
        return None, [compose_problem(error, source)]
    except RecursionError:
        return None, [Problem(TOO_DEEP, place=source.place(0, 0), code="yaml-syntax")]
    except _RefusedError as error:
        return None, [error.problem]
    return node, builder.problems


class _Builder:
    """Builds nodes from what the parser composed, and collects problems on the way."""

    def __init__(self, source: Source) -> None:
        self.problems: list[Problem] = []
        self._source = source
        self._open: list[int] = []
        self._count = 0

    def build(self, raw: yaml.Node, key: Place | None) -> Node:
        self._count += 1
        place = self._place(raw)
        if id(raw) in self._open:
            raise _RefusedError(Problem("an anchor that holds itself", place=place, code="yaml-syntax"))
        if self._count > _MAX_VALUES:
            text = f"more than {_MAX_VALUES:,} values once its aliases are followed"
            raise _RefusedError(Problem(text, place=self._source.place(0, 0), code="yaml-syntax"))
        if len(self._open) >= _MAX_DEPTH:
            raise _RefusedError(Problem(TOO_DEEP, place=place, code="yaml-syntax"))
        if isinstance(raw, yaml.ScalarNode):
            return self._scalar(raw, place, key)
        spread = isinstance(raw, yaml.CollectionNode) and not raw.flow_style
        self._open.append(id(raw))
        if isinstance(raw, yaml.MappingNode):
            self._check_tag(raw, place, "map")
            node = Node(self._entries(raw), place, key, self._source.folder, spread=spread)
        else:
            self._check_tag(raw, place, "seq")
            items = [self.build(item, None) for item in raw.value]
            node = Node(items, place, key, self._source.folder, spread=spread)
        self._open.pop()
        return node

    def _place(self, raw: yaml.Node) -> Place:
        start, end = raw.start_mark, raw.end_mark
        if end.line == start.line:
            return self._source.place(start.line, start.column, end.column - start.column)
        lines = self._source.lines
        rest = lines[start.line].rstrip() if start.line < len(lines) else ""
        return self._source.place(start.line, start.column, len(rest) - start.column)

    def _scalar(self, raw: yaml.ScalarNode, place: Place, key: Place | None) -> Node:
        try:
            value = core.convert(core.STR if raw.tag == core.MERGE else raw.tag, raw.value)
        except ValueError:
            self._bad_tag(raw, place)
            value = raw.value
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= char <= "\udfff" for char in value)):
            text = "text that holds a NUL or half a character pair cannot be passed to a program"
            self.problems.append(Problem(text, "remove the escape", place=place, code="value-text"))
            value = value.replace("\0", "").encode("utf-8", "replace").decode()
        at = self._text_at(raw)
        spread = raw.style in {"|", ">"}
        return Node(value, place, key, self._source.folder, text_at=at, spread=spread)

    def _text_at(self, raw: yaml.ScalarNode) -> int | None:
        for lead in (0, 1):
            begin = raw.start_mark.index + lead
            if self._source.text[begin : raw.end_mark.index - lead] == raw.value:
                return lead
        return None

    def _check_tag(self, raw: yaml.Node, place: Place, kind: str) -> None:
        if raw.tag != f"tag:yaml.org,2002:{kind}":
            self._bad_tag(raw, place)

    def _bad_tag(self, raw: yaml.Node, place: Place) -> None:
        tag = raw.tag.replace("tag:yaml.org,2002:", "!!")
        text = f"the tag `{tag}` does not fit here"
        self.problems.append(Problem(text, "remove the tag; plain values need none", place=place, code="yaml-tag"))

    def _entries(self, raw: yaml.MappingNode) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        own: dict[str, Node] = {}
        seen: dict[str, Place] = {}
        for raw_key, raw_value in raw.value:
            place = self._place(raw_key)
            name = self._key(raw_key, place)
            if name in seen:
                text = f"the key `{name}` appears twice; the first is on line {seen[name].line}"
                self.problems.append(Problem(text, "keep one of them", place=place, code="yaml-duplicate-key"))
                continue
            seen[name] = place
            if raw_key.tag == core.MERGE:
                merged = self._merged(raw_value)
            else:
                own[name] = self.build(raw_value, place)
        return {**merged, **own}

    def _key(self, raw: yaml.Node, place: Place) -> str:
        if isinstance(raw, yaml.ScalarNode) and raw.tag in {core.STR, core.MERGE}:
            return str(raw.value)
        name = str(raw.value) if isinstance(raw, yaml.ScalarNode) else "?"
        hint = f'put it in quotes: "{name}"' if isinstance(raw, yaml.ScalarNode) else None
        self.problems.append(Problem(f"the key `{name}` is not text", hint, place=place, code="yaml-key"))
        return name

    def _merged(self, raw: yaml.Node) -> dict[str, Node]:
        sources = raw.value if isinstance(raw, yaml.SequenceNode) else [raw]
        entries: dict[str, Node] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                text = "`<<` takes a mapping or a list of mappings"
                self.problems.append(Problem(text, place=self._place(source), code="yaml-merge"))
                continue
            content = self.build(source, None).content
            if isinstance(content, dict):
                entries = {**content, **entries}
        return entries
