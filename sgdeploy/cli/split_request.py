"""From the options of ``split-weights``, and the profile that they name, to what is to be split."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast, get_args

from sgdeploy.cli.redact import redact_words
from sgdeploy.cli.targets import compiled
from sgdeploy.errors import UsageError
from sgdeploy.problems import Problem
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.weights.cut.assign import Mtp
from sgdeploy.weights.cut.book import scheme
from sgdeploy.weights.cut.bundles import DRAFT
from sgdeploy.weights.cut.deployment import LOAD_FORMATS, Deployment, deployments
from sgdeploy.weights.cut.planner import Wish
from sgdeploy.weights.cut.schema import RULE, Layout, Scheme
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.disk.request import Prepared, Replicas, Request
from sgdeploy.weights.disk.split import How, Split
from sgdeploy.weights.errors import CheckpointError
from sgdeploy.weights.worker.job import Done
from sgdeploy.words import number_list

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.cli.split_weights import Options

_MOST_WORKERS = 4
W = TypeVar("W", bound=str)


def request(desk: Desk, options: Options) -> Request:
    """Make the request.

    Raises:
        UsageError: words that do not fit together.
        ProfileError: a profile with problems.
        CheckpointError: a scheme with problems.
    """
    _refuse_incomplete(options)
    return request_for(options, _deployment(desk, options))


def request_for(options: Options, deployment: Deployment | None) -> Request:
    """Make the request for an instance, or for none.

    Raises:
        UsageError: words that do not fit together.
        CheckpointError: a scheme with problems.
    """
    if options.model is None:
        raise UsageError("--model is missing", hint="name the folder of the checkpoint")
    wish = _wish(options, deployment)
    return Request(
        model=options.model,
        target=options.out,
        wish=wish,
        ranks=options.ranks,
        node=options.node_rank,
        nodes=options.nnodes or (None if deployment is None else deployment.nodes),
        replicas=cast("Replicas", _word("--replicas", options.replicas, get_args(Replicas))),
        expect=tuple(options.expect or ()),
    )


def _refuse_incomplete(options: Options) -> None:
    """Name everything at once that a split needs and that the words do not say."""
    needed = {
        "--model is missing": (options.model is None, "name the folder of the checkpoint with --model"),
        "--out is missing": (
            options.out is None and not options.plan,
            "the one that is written with --out (or --plan)",
        ),
        "no sizes are known": (
            options.profile is None and options.tp is None,
            "pass --profile, or --tp with --dp, --ep and --pp",
        ),
    }
    absent = {what: hint for what, (is_absent, hint) in needed.items() if is_absent}
    if absent:
        raise UsageError(", ".join(absent), hint="; ".join(absent.values()))


def job(desk: Desk, options: Options, prepared: Prepared, out: Path) -> Split:
    """Say how a prepared split is to be written."""
    return Split(prepared, out, how_to_write(options, os.cpu_count() or 1), arguments(desk))


def how_to_write(options: Options, cores: int) -> How:
    """Take what the options say about writing; without a number of workers, as many as cores, four at most."""
    workers = options.workers or min(cores, _MOST_WORKERS)
    return How(workers, hashed=options.hashes, synced=options.fsync, start_over=options.start_over)


def arguments(desk: Desk) -> tuple[str, ...]:
    """Give the words of this command for the manifest, without secrets."""
    return tuple(redact_words(desk.argv, desk.environ, desk.secret_names))


def _deployment(desk: Desk, options: Options) -> Deployment | None:
    """Find the instance that the split is for; instances that need the same split are one."""
    if options.profile is None:
        if options.instance is not None:
            raise UsageError("--instance names one of a profile's", hint="pass --profile")
        return None
    return chosen(options, deployments(compiled(desk, options.profile, options).plan))[0]


def chosen(options: Options, found: Sequence[Deployment]) -> Sequence[Deployment]:
    """Give the instances that are meant: the one that is named, or all, where they need the same split.

    Raises:
        UsageError: there is no such instance, or they need different splits.
    """
    units = [each.unit for each in found]
    if options.instance is not None:
        if options.instance not in units:
            guess = did_you_mean(options.instance, units)
            hint = f"did you mean {guess}?" if guess else f"there are: {', '.join(units)}"
            raise UsageError(f"the profile has no instance {options.instance}", hint=hint)
        return [found[units.index(options.instance)]]
    if any(_needs(each) != _needs(found[0]) for each in found):
        rows = "; ".join(f"{each.unit}: tp {each.sizes.tp}, dp {each.sizes.dp}" for each in found)
        raise UsageError(f"the profile's instances need different splits ({rows})", hint="pass --instance with one")
    return found


def _needs(each: Deployment) -> tuple[object, ...]:
    return each.sizes, each.classes, each.load_format


def _wish(options: Options, deployment: Deployment | None) -> Wish:
    word = options.scheme or ("upstream" if deployment is None else deployment.scheme)
    found, problems = scheme(word)
    if found is None:
        raise CheckpointError(problems)
    layout = options.layout
    if layout is None and deployment is not None and deployment.load_format in LOAD_FORMATS:
        layout = deployment.load_format
    if options.pad_vocab is not None:
        _word("--pad-vocab", options.pad_vocab, ("zeros",))
    return Wish(
        sizes=_sizes(options, deployment, found),
        scheme=found,
        classes={**({} if deployment is None else deployment.classes), **_classes(options.classes or ())},
        layout=None if layout is None else cast("Layout", _word("--layout", layout, get_args(Layout))),
        mtp=None if options.mtp is None else cast("Mtp", _word("--mtp", options.mtp, get_args(Mtp))),
        pad_vocabulary=options.pad_vocab is not None,
    )


def _sizes(options: Options, deployment: Deployment | None, wanted: Scheme) -> Sizes:
    """Take each size from the options, else from the profile, else from what the scheme's runtime does."""
    base = Sizes(tp=1) if deployment is None else deployment.sizes
    tp = options.tp or base.tp
    usual = base.ep if deployment is not None else tp if wanted.experts == "single" else 1
    return Sizes(
        tp=tp,
        dp=options.dp or base.dp,
        ep=options.ep or usual,
        pp=options.pp or base.pp,
        partition=_partition(options.pp_partition),
        redundant=base.redundant if options.redundant_experts is None else options.redundant_experts,
        expert_map=_expert_map(options.expert_map),
    )


def how_to_load(options: Options, done: Done, request: Request) -> list[str]:
    """Say with which flags an engine, started from wherever, loads what was written."""
    out = options.out.absolute() if options.out is not None else None
    lines = [
        f"load it with: --load-format {request.wish.files} --model-path {out}"
        + (f"/{folder} ({_stage(request, int(folder.removeprefix('pp')))})" if folder else "")
        for folder in done.folders
        if folder != DRAFT
    ]
    if request.wish.sizes.pp > 1:
        lines.append(f"in a profile, for every stage its own: model.path: {out}/pp{{stage}}")
    if DRAFT in done.folders:
        lines.append(f"the draft model: --speculative-draft-model-path {out}/{DRAFT}")
    return lines


def _stage(request: Request, stage: int) -> str:
    """Name a pipeline stage and the nodes that run it, where they are known."""
    each, rest = divmod(request.nodes or 0, request.wish.sizes.pp)
    nodes = f": node ranks {number_list(range(stage * each, (stage + 1) * each))}" if each and not rest else ""
    return f"pipeline stage {stage}{nodes}"


def _word(option: str, word: str, known: Sequence[str]) -> str:
    """Check a word against those that an option knows.

    Raises:
        UsageError: it is none of them.
    """
    if word not in known:
        guess = did_you_mean(word, known)
        raise UsageError(
            f"{option} {word}: no such choice",
            hint=f"did you mean {guess}?" if guess else f"one of: {', '.join(known)}",
        )
    return word


def _classes(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, _, rule = text.partition("=")
        if not RULE.fullmatch(rule):
            hint = "write NAME=whole, NAME=attention, NAME=global or NAME=socket:8"
            raise UsageError(f"--class {text}: {rule or 'nothing'} is no rule", hint=hint)
        found[name.replace("-", "_")] = rule
    return found


def _partition(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) for part in parts):
        raise UsageError(f"--pp-partition {text}: not a list of numbers", hint="write 30,31")
    return tuple(map(int, parts))


def _expert_map(path: Path | None) -> dict[int, tuple[int, ...]]:
    """Read layer → logical expert of each physical one."""
    if path is None:
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["physical_to_logical_map"]
        return {layer: tuple(map(index, row)) for layer, row in enumerate(rows)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        hint = 'it holds {"physical_to_logical_map": [[…], …]}, a row for each layer'
        raise CheckpointError([Problem(f"{path} is no expert map: {error}", hint, code="expert-map")]) from error
