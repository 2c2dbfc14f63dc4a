"""The files that make up a profile: itself, its parents (``extends``), overlays; each read once, merged in order."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from sgdeploy.problems import Place, Problem
from sgdeploy.profile.compose import compose
from sgdeploy.profile.locate import SHIPPED, locate, overlay_reference, shown
from sgdeploy.profile.merge import merge
from sgdeploy.profile.messages import got
from sgdeploy.profile.nodes import Node, plain
from sgdeploy.profile.schema import ProfileBase
from sgdeploy.profile.source import read

_Chain: TypeAlias = "tuple[tuple[str, str], ...]"
"""The files being read, outermost first: real path and name for people."""


@dataclass
class Layers:
    """Reads files and collects their problems.

    Attributes:
        absolute: whether the user names files by full paths; then we do too.
        files: every file that was read, in order.
        names: the same as problems call them.
        problems: what was wrong in reading and parsing, with places.
        complete: False once a file is missing from the whole, so that a missing key proves nothing.
    """

    absolute: bool
    files: list[Path] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True
    _parsed: dict[str, Node | None] = field(default_factory=dict)

    def profile(self, path: Path) -> Node:
        """Read a profile with its parents; an empty tree where nothing could be read."""
        reference = str(path)
        found = locate(reference, Path.cwd())
        name = self.shown(found) if reference.startswith(SHIPPED) else reference
        return self._layer(found, name, None, ()) or self._nothing(name, found.parent)

    def overlay(self, root: Node, path: Path) -> Node:
        """Lay an overlay (with its own parents) over what there is."""
        reference = overlay_reference(path)
        found = locate(reference, Path.cwd())
        name = self.shown(found) if reference.startswith(SHIPPED) else reference
        layer = self._layer(found, name, None, ())
        return root if layer is None else merge(root, layer)

    def shown(self, path: Path) -> str:
        """Name a file for people."""
        return shown(path, absolute=self.absolute)

    def parse(self, path: Path, name: str, asked: Place | None) -> Node | None:
        """Read one file whose top is a mapping; None (and a problem) where it is none. Each file is parsed once."""
        real = os.path.realpath(path)
        if real in self._parsed:
            return self._parsed[real]
        source = read(path, name, path.parent, asked)
        if isinstance(source, Problem):
            self.problems.append(source)
            return None
        self.files.append(path)
        self.names.append(name)
        node, problems = compose(source)
        if node is None and not problems:
            hint = "a profile begins with version: 1"
            problems = [Problem("the file is empty", hint, place=source.place(0, 0), code="file-empty")]
        if node is not None and not isinstance(node.content, dict):
            text = f"the top of the file must be keys with values, not {got(plain(node))}"
            problems.append(Problem(text, "write `key: value` lines", place=node.place, code="file-top"))
            node = None
        self.problems += problems
        self._parsed[real] = node
        return node

    def _nothing(self, name: str, folder: Path) -> Node:
        return Node({}, Place(name, 1, 1), None, folder)

    def _layer(self, path: Path, name: str, asked: Place | None, chain: _Chain) -> Node | None:
        real = os.path.realpath(path)
        if real in {one for one, _ in chain}:
            self._circle(real, name, asked, chain)
            return None
        node = self.parse(path, name, asked)
        if node is None or not isinstance(node.content, dict):
            self.complete = False
            return None
        parents = self._parents(node, (*chain, (real, name)))
        kept = {key: item for key, item in node.content.items() if key not in ProfileBase.reader_keys}
        own = replace(node, content=kept)
        below: Node | None = None
        for parent in parents:
            below = parent if below is None else merge(below, parent)
        return own if below is None else merge(below, own)

    def _parents(self, node: Node, chain: _Chain) -> list[Node]:
        extends = node.child("extends")
        if extends is None or extends.content is None:
            return []
        entries = extends.content if isinstance(extends.content, list) else [extends]
        found: list[Node] = []
        for entry in entries:
            if not isinstance(entry.content, str) or not entry.content:
                text = f"`extends` takes a path or a list of paths, got {got(plain(entry))}"
                self.problems.append(Problem(text, place=entry.place, code="value-type"))
                self.complete = False
                continue
            path = locate(entry.content, entry.folder)
            layer = self._layer(path, self.shown(path), entry.place, chain)
            found += [] if layer is None else [layer]
        return found

    def _circle(self, real: str, name: str, asked: Place | None, chain: _Chain) -> None:
        start = next(index for index, (one, _) in enumerate(chain) if one == real)
        names = [*(known for _, known in chain[start:]), name]
        text = f"`extends` goes in a circle: {' → '.join(names)}"
        self.problems.append(Problem(text, "remove one of them", place=asked, code="extends-cycle"))
        self.complete = False
