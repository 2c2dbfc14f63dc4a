"""Split weights: does the split in a model folder fit the plan that would load it?

The engine itself would not say: a tensor that is too small is loaded with a warning and leaves garbage in the rest of
its parameter (ShardedStateLoader of SGLang 0.5.23). A folder without a manifest of ours is left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sgdeploy.facts.model import Finding, PathFact
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, simulated
from sgdeploy.facts.text import read_numbers
from sgdeploy.plan.model import Plan, Process
from sgdeploy.weights.cut.book import scheme
from sgdeploy.weights.cut.bundles import attention_file, folder, rank_file
from sgdeploy.weights.cut.deployment import LOAD_FORMATS, Deployment, deployment, engine_flags
from sgdeploy.weights.cut.manifest import HEAD, Head, read_head
from sgdeploy.weights.cut.targets import ranks_of_node
from sgdeploy.words import number_list, plural

_DRAFT_FLAG = "speculative-draft-model-path"
_CERTAIN = "lm_head"
"""The class whose rule follows from the engine's flags whatever the scheme."""

_LIKELY = ("dense_mlp", "shared_experts")
"""Classes whose rule follows from the flags in the runtimes that we know; a build may differ."""

_PARTS = range(3)
"""Numbers that parts of a rank can have in ``sharded_state``."""

_DOUBT = "split-doubtful"
HINTS: Mapping[str, str] = {
    "split-damaged": "copy the split again, or make it anew",
    "split-unfit": "split again for this deployment: sgdeploy split-weights --profile (docs/split-weights.md)",
    "split-folder": "",
    "split-ranks": "make or copy this node's part: sgdeploy split-weights --node-rank",
    "split-files": "run the same split-weights again, or copy it again; `split-weights verify` there reads every byte",
    _DOUBT: "a build may want it so: compare with --expect and a manifest of it (split-weights dump-manifest)",
}
"""Kind of misfit → the next step; that of another folder names the right one."""


@dataclass(frozen=True)
class _Use:
    """A folder that an instance loads weights from on one host.

    Attributes:
        path: of the folder.
        wanted: what the instance needs.
        draft: whether it is the draft model.
        ranks: of the instance that load from it there, counted over all stages.
    """

    path: str
    wanted: Deployment
    draft: bool
    ranks: set[int] = field(default_factory=set)

    def files(self, name: str, count: int) -> tuple[str, ...]:
        """Give the paths of these ranks' files of one name; ranks that share a file name it once."""
        numbers = sorted({rank % self.wanted.sizes.tp % count for rank in self.ranks})
        return tuple(f"{self.path}/{name.format(rank=number)}" for number in numbers)


@dataclass(frozen=True)
class _Loaded(_Use):
    """The same, with the head of the split in it."""

    head: Head = field(kw_only=True)


def wanted(plan: Plan, processes: tuple[Process, ...]) -> Wanted:
    """Ask for the manifest's head in every model folder, and for the files that ranks would load from a split."""
    uses = _uses(plan, processes)
    heads, own = (f"{use.path}/{HEAD}" for use in uses), (path for use in uses for path in _own(use))
    return Wanted(files=tuple(heads), stat=tuple(own))


def _own(use: _Use) -> Iterator[str]:
    """Give every path that may be a file of the ranks of a use, as far as the load format tells."""
    sizes = use.wanted.sizes
    if use.wanted.load_format == LOAD_FORMATS[0]:
        for part in _PARTS:
            yield from use.files(rank_file(part), sizes.tp)
    elif use.wanted.load_format == LOAD_FORMATS[1]:
        yield from use.files(attention_file(sizes), sizes.attention)


def _uses(plan: Plan, processes: tuple[Process, ...]) -> tuple[_Use, ...]:
    """Give the folders that processes of one host load from, one for each instance and folder, with their ranks."""
    real = [process for process in processes if not simulated(process) and _folders(process)]
    units = {process.unit for process in real}
    hosts: dict[str, set[str]] = {unit: set() for unit in units}
    for process in plan.of_units(units):
        hosts[process.unit].add(process.host)
    uses: dict[tuple[str, str], _Use] = {}
    for process in real:
        found = deployment(process, plan.platform, len(hosts[process.unit]))
        ranks = ranks_of_node(found.sizes, process.node_rank or 0, found.nodes)
        if isinstance(ranks, range):
            mine = ranks if process.rank_in_node is None else ranks[process.rank_in_node :][:1]
            for path in _folders(process):
                use = _Use(path, found, path != found.model.rstrip("/"))
                uses.setdefault((process.unit, path), use).ranks.update(mine)
    return tuple(uses.values())


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
    """Hold every split that would be loaded on the host against the plan; one finding for each kind of misfit."""
    words: dict[str, list[str]] = {code: [] for code in HINTS}
    hints = dict(HINTS)
    for use in _uses(subject.plan, subject.real):
        head = subject.facts.splits.get(use.path)
        if isinstance(head, str):
            words["split-damaged"].append(f"{use.path}/{HEAD} is damaged: {head}")
        elif head is not None:
            loaded = _Loaded(use.path, use.wanted, use.draft, use.ranks, head=head)
            code, said = _judge(loaded, subject.facts.paths)
            hints["split-folder"] = _way(loaded) if code == "split-folder" else hints["split-folder"]
            words[code] += [said] if said else []
    for code, found in words.items():
        if found:
            tell = subject.warning if code == _DOUBT else subject.error
            yield tell(code, "; ".join(dict.fromkeys(found)), hints[code])


def _judge(loaded: _Loaded, there: Mapping[str, PathFact]) -> tuple[str, str]:
    """Give the first kind of misfit of a split and say it; "" where it fits."""
    if said := _unfit(loaded):
        return "split-unfit", said
    if said := _elsewhere(loaded):
        return "split-folder", said
    if said := _lacking(loaded):
        return "split-ranks", said
    if said := _files(loaded, there):
        return "split-files", said
    return _DOUBT, _rules(loaded, _LIKELY)


def _unfit(loaded: _Loaded) -> str:
    """Say how a split differs from what its instance needs."""
    head, sizes = loaded.head, loaded.wanted.sizes
    if not loaded.draft and loaded.wanted.load_format != head.layout:
        flag = loaded.wanted.load_format or "auto"
        return f"{loaded.path} holds a split ({head.layout}), and the engine loads it with load-format {flag}"
    pairs = [("tp", head.tp, sizes.tp), ("attention groups (dp)", head.dp, sizes.dp), ("pp", head.pp, sizes.pp)]
    if head.layout == LOAD_FORMATS[0]:
        pairs += [("ep", head.ep, sizes.ep), ("redundant experts", head.redundant_experts, sizes.redundant)]
    differ = [f"{name} {there}, here {here}" for name, there, here in pairs if there != here]
    return f"the split in {loaded.path} is for {'; '.join(differ)}" if differ else _rules(loaded, (_CERTAIN,))


def _right_folders(loaded: _Loaded) -> list[str]:
    """Name the folders of the split that hold what the ranks of a use load."""
    sizes = loaded.wanted.sizes
    stages = sorted({rank // sizes.tp for rank in loaded.ranks})
    return list(dict.fromkeys(folder(sizes, stage, draft=loaded.draft) for stage in stages))


def _elsewhere(loaded: _Loaded) -> str:
    """Say that a folder is another part of the split than the one that is needed; "" where it is the right one."""
    folders = _right_folders(loaded)
    if folders == [loaded.head.folder]:
        return ""
    what = "draft model" if loaded.draft else "model"
    names = " and ".join(each or "the top" for each in folders)
    return f"{loaded.path} is {loaded.head.folder or 'the top'} of a split; the {what} of this host is in {names}"


def _way(loaded: _Loaded) -> str:
    """Say which path would be right."""
    top = loaded.path.removesuffix(f"/{loaded.head.folder}") if loaded.head.folder else loaded.path
    if loaded.draft:
        return f"set {_DRAFT_FLAG} to {top}/{_right_folders(loaded)[0]}"
    right = top + ("/pp{stage}" if loaded.wanted.sizes.pp > 1 else "")
    return f"set `model.path` (or `model_path` of the instance) to {right}"


def _rules(loaded: _Loaded, classes: tuple[str, ...]) -> str:
    """Say which classes are cut into another number than the instance's flags ask for; "" for none."""
    known, _ = scheme(loaded.wanted.scheme)
    rules: Mapping[str, str] = {} if known is None else {**known.classes, **loaded.wanted.classes}
    sizes = loaded.wanted.sizes
    return "; ".join(
        f"{name} in {loaded.path}: {sizes.words(there)} there, the engine's flags ask for {sizes.words(here)}"
        for name in classes
        if (there := loaded.head.rules.get(name)) is not None
        and (here := rules.get(name)) is not None
        and sizes.ways(there) != sizes.ways(here)
    )


def _lacking(loaded: _Loaded) -> str:
    """Say which ranks of this host have no files in a split that is otherwise right; "" where all have."""
    missing = loaded.ranks - set(read_numbers(loaded.head.ranks))
    has = loaded.head.ranks or "none"
    words = f"the split in {loaded.path} has files of ranks {has}; this host also runs {number_list(missing)}"
    return words if missing else ""


def _files(loaded: _Loaded, there: Mapping[str, PathFact]) -> str:
    """Say which files of this host's ranks are missing or have another size than the manifest says; "" for none."""
    gone: list[str] = []
    odd: list[str] = []
    for row in loaded.head.rank_files:
        for path in loaded.files(row.name, row.count):
            fact = there.get(path)
            if fact is None or fact.error:
                continue
            if not fact.exists:
                gone.append(path)
            elif fact.size is not None and fact.size != row.size:
                odd.append(f"{path} has {fact.size} bytes, its manifest says {row.size}")
    words = [f"{gone[0]} is missing" + (f" ({plural(len(gone), 'file')})" if gone[1:] else "")] if gone else []
    return "; ".join([*words, *odd[:1]]) + (f" ({plural(len(odd), 'such file')})" if odd[1:] else "")
