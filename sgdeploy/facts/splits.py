"""Split weights: does the split in a model folder fit the plan that would load it?

The engine itself would not say: a tensor that is too small is loaded with a warning and leaves garbage in the rest of
its parameter (ShardedStateLoader of SGLang 0.5.23). A folder without a manifest of ours is left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sgdeploy.facts.model import Finding
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, simulated
from sgdeploy.facts.text import read_numbers
from sgdeploy.plan.model import Process
from sgdeploy.weights.cut.book import scheme
from sgdeploy.weights.cut.bundles import folder
from sgdeploy.weights.cut.deployment import LOAD_FORMATS, Deployment, deployment, engine_flags
from sgdeploy.weights.cut.manifest import HEAD, Head, read_head
from sgdeploy.weights.cut.targets import ranks_of_node
from sgdeploy.words import number_list

_DRAFT_FLAG = "speculative-draft-model-path"
_CERTAIN = "lm_head"
"""The class whose rule follows from the engine's flags whatever the scheme."""

_LIKELY = ("dense_mlp", "shared_experts")
"""Classes whose rule follows from the flags in the runtimes that we know; a build may differ."""


@dataclass(frozen=True)
class _Loaded:
    """A split that an instance on this host would load.

    Attributes:
        path: of the folder.
        head: of its manifest.
        wanted: what the instance needs.
        ranks: of the instance that run on this host.
        draft: whether it is the draft model.
    """

    path: str
    head: Head
    wanted: Deployment
    ranks: range
    draft: bool


def wanted(processes: tuple[Process, ...]) -> Wanted:
    """Ask for the manifest's head in every model folder."""
    paths = [path for process in processes for path in _folders(process)]
    return Wanted(files=tuple(f"{path}/{HEAD}" for path in paths))


def _folders(process: Process) -> tuple[str, ...]:
    """Give the folders that a process loads weights from; the simulated engine loads none."""
    if simulated(process):
        return ()
    flags = engine_flags(process.argv)
    paths = (flags.get(name, "").rstrip("/") for name in ("model-path", _DRAFT_FLAG))
    return tuple(path for path in paths if path.startswith("/"))


def splits(raw: Raw) -> dict[str, Head | str]:
    """Read model folder → head of the split in it, or what is wrong with that head."""
    return {match[1]: read_head(text) for match, text in raw.files(r"^(.*)/sgdeploy-split\.json")}


def check(subject: Subject) -> Iterator[Finding]:
    """Hold every split that would be loaded on the host against the plan."""
    damaged: dict[str, str] = {}
    unfit: list[str] = []
    lacking: list[str] = []
    doubts: list[str] = []
    for loaded in _loaded(subject, damaged):
        unfit += _unfit(loaded)
        lacking += _lacking(loaded)
        doubts += _doubts(loaded)
    again = "split again for this deployment: sgdeploy split-weights --profile (docs/split-weights.md)"
    if damaged:
        what = "; ".join(f"{path}/{HEAD} is damaged: {reason}" for path, reason in damaged.items())
        yield subject.error("split-damaged", what, "copy the split again, or make it anew")
    if unfit:
        yield subject.error("split-unfit", "; ".join(dict.fromkeys(unfit)), again)
    if lacking:
        hint = "make or copy this node's part: sgdeploy split-weights --node-rank"
        yield subject.error("split-ranks", "; ".join(dict.fromkeys(lacking)), hint)
    if doubts:
        hint = "a build may want it so: compare with --expect and a manifest of it (split-weights dump-manifest)"
        yield subject.warning("split-doubtful", "; ".join(dict.fromkeys(doubts)), hint)


def _loaded(subject: Subject, damaged: dict[str, str]) -> Iterator[_Loaded]:
    """Give the splits of the host's instances, one for each instance and folder; note those that are damaged."""
    hosts: dict[str, set[str]] = {}
    for process in subject.plan.processes:
        hosts.setdefault(process.unit, set()).add(process.host)
    firsts = {process.unit: process for process in reversed(subject.real)}
    for unit, process in firsts.items():
        found = deployment(process, subject.plan.platform, len(hosts[unit]))
        ranks = ranks_of_node(found.sizes, process.node_rank or 0, found.nodes)
        for path in _folders(process):
            head = subject.facts.splits.get(path)
            if isinstance(head, str):
                damaged[path] = head
            elif head is not None and isinstance(ranks, range):
                draft = path != found.model.rstrip("/")
                yield _Loaded(path, head, found, ranks, draft)


def _unfit(loaded: _Loaded) -> list[str]:
    """Say how a split differs from what its instance needs."""
    head, sizes = loaded.head, loaded.wanted.sizes
    if not loaded.draft and loaded.wanted.load_format != head.layout:
        flag = loaded.wanted.load_format or "auto"
        return [f"{loaded.path} holds a split ({head.layout}), and the engine loads it with load-format {flag}"]
    pairs = [("tp", head.tp, sizes.tp), ("attention groups (dp)", head.dp, sizes.dp), ("pp", head.pp, sizes.pp)]
    if head.layout == LOAD_FORMATS[0]:
        pairs += [("ep", head.ep, sizes.ep), ("redundant experts", head.redundant_experts, sizes.redundant)]
    differ = [f"{name} {there}, here {here}" for name, there, here in pairs if there != here]
    if differ:
        return [f"the split in {loaded.path} is for {'; '.join(differ)}"]
    stages = sorted({rank // sizes.tp for rank in loaded.ranks})
    folders = {folder(sizes, stage, draft=loaded.draft) for stage in stages}
    if head.folder not in folders:
        names = " or ".join(f"{each or 'the whole'}" for each in sorted(folders))
        what = "draft model" if loaded.draft else "model"
        return [f"{loaded.path} is {head.folder or 'the top'} of a split; the {what} of this host is in {names}"]
    return _rules(loaded, (_CERTAIN,))


def _rules(loaded: _Loaded, classes: tuple[str, ...]) -> list[str]:
    """Say which classes are cut into another number than the instance's flags ask for."""
    known, _ = scheme(loaded.wanted.scheme)
    rules: Mapping[str, str] = {} if known is None else {**known.classes, **loaded.wanted.classes}
    sizes = loaded.wanted.sizes
    return [
        f"{name} in {loaded.path}: {sizes.words(there)} there, the engine's flags ask for {sizes.words(here)}"
        for name in classes
        if (there := loaded.head.rules.get(name)) is not None
        and (here := rules.get(name)) is not None
        and sizes.ways(there) != sizes.ways(here)
    ]


def _lacking(loaded: _Loaded) -> list[str]:
    """Say which ranks of this host have no files in a split that is otherwise right."""
    missing = set(loaded.ranks) - set(read_numbers(loaded.head.ranks))
    if not missing or _unfit(loaded):
        return []
    has = loaded.head.ranks or "none"
    return [f"the split in {loaded.path} has files of ranks {has}; this host also runs {number_list(missing)}"]


def _doubts(loaded: _Loaded) -> list[str]:
    return [] if _unfit(loaded) else _rules(loaded, _LIKELY)
