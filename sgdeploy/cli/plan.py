"""``sgdeploy plan``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import ONLY_HELP, PROFILE_HELP, Changes, Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.model import Plan
    from sgdeploy.plan.part import Part

EXAMPLES = """
  sgdeploy plan my.yaml                       who runs where, on which ports and cores
  sgdeploy plan my.yaml --host n03            all that one host gets: commands, variables, cores
  sgdeploy plan my.yaml --only router         the same of a part: prefill/short, router, a role, hosts by glob
  sgdeploy plan my.yaml --explain page-size   which file and line set it, and what it overrode
  sgdeploy plan my.yaml --diff dsv3           how it differs from what was started as dsv3
  sgdeploy plan my.yaml --set native.port=31000 --diff my.yaml
                                              what one change would do
  sgdeploy plan my.yaml --json > plan.json    the whole plan, for programs and for --diff plan.json
  sgdeploy plan my.yaml --out scripts/        as bash scripts to read and to run by hand
""".lstrip("\n")
DIFFERS = 1


@dataclass(frozen=True, kw_only=True)
class Options(Changes, Json):
    """Arguments and options of ``plan``."""

    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", show_default=False, help=PROFILE_HELP, autocompletion=complete.profiles)
    ]
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            show_default="all hosts, summed up",
            help="Show all that one host gets.",
            autocompletion=complete.hosts,
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SELECTOR", show_default="everything, summed up", help=ONLY_HELP, autocompletion=complete.parts
        ),
    ] = None
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            autocompletion=complete.keys,
            show_default="nothing explained",
            help="Show where a value comes from: file and line, platform or default, and what it overrode. KEY is a "
            "flag (page-size), a variable, a key of the profile or inventory (native.port), or a field (cores).",
        ),
    ] = None
    diff: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            autocompletion=complete.others,
            show_default="not compared",
            help="Show how the plan differs from another: the name of a deployment (what was started last from this "
            "machine), a file of `plan --json`, or a profile as it is, without --set and --overlay. Ends with 1 where "
            "it does.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default="none written",
            help="Write one script per process and per host there. DIR is new, empty, or from an earlier --out.",
        ),
    ] = None
    templates: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default="those that ship with sgdeploy",
            help="With --out: take the templates of the scripts from there first (docs/scripts.md). `up` does not.",
        ),
    ] = None


def plan(desk: Desk, options: Options) -> None:
    """Show what would run where. No host is touched: what is shown is what `up` runs.

    Secrets are shown by their names only.
    """
    from sgdeploy.cli.targets import compile_named
    from sgdeploy.plan.part import Part

    console = desk.open(options)
    part = Part(options.host, tuple(options.only or ()))
    _refuse_contradictions(options, part)
    made = compile_named(desk, options.profile, options)
    console.advise(made.warnings)
    if options.explain is not None:
        _explain(console, made, options.explain, part)
        return
    if options.diff is not None:
        _diff(desk, console, options, made.plan, part)
        return
    _refuse_nobody(part, made.plan)
    if options.out is not None:
        _write(console, options, made.plan)
    elif part.whole:
        console.plan(made.plan)
    else:
        console.part(made.plan, part)


def _refuse_contradictions(options: Options, part: Part) -> None:
    from sgdeploy.errors import UsageError

    asked = [name for name in ("explain", "diff", "out") if getattr(options, name) is not None]
    if len(asked) > 1:
        raise UsageError(f"--{asked[0]} and --{asked[1]} contradict each other")
    if options.out is not None and not part.whole:
        raise UsageError("--out writes the whole plan", hint="leave out --host and --only")
    if options.templates is not None and options.out is None:
        raise UsageError("--templates is about the scripts that --out writes", hint="add --out DIR")


def _refuse_nobody(part: Part, *plans: Plan) -> None:
    """Refuse a part that none of the plans has, and say what the last of them has."""
    from sgdeploy.cli.targets import unknown
    from sgdeploy.errors import UsageError
    from sgdeploy.plan.selector import matching, selected

    hosts = list(dict.fromkeys(host.host for plan in plans for host in plan.hosts))
    if part.host is not None and part.host not in hosts:
        raise unknown(f"no host named {part.host} is in the plan", part.host, "its hosts", hosts)
    for selector in part.only:
        if not any(matching(plan, [selector]) for plan in plans):
            selected(plans[-1], [selector])
    if not any(part.processes(plan) for plan in plans):
        raise UsageError(f"nothing of {', '.join(part.only)} runs on {part.host}")


def _explain(console: Console, made: Compiled, word: str, part: Part) -> None:
    from sgdeploy.console.explanations import explanation_lines
    from sgdeploy.errors import UsageError
    from sgdeploy.plan.explain.door import explain
    from sgdeploy.problems import Problem

    _refuse_nobody(part, made.plan)
    found = explain(made, word, part)
    if isinstance(found, Problem):
        raise UsageError(found.message, hint=found.hint)
    console.show([each.to_json() for each in found], explanation_lines(found))


def _diff(desk: Desk, console: Console, options: Options, after: Plan, part: Part) -> None:
    from sgdeploy.cli.others import other_plan
    from sgdeploy.console.differences import difference_lines
    from sgdeploy.plan.compare import compare

    name, before = other_plan(desk, str(options.diff))
    _refuse_nobody(part, before, after)
    found = compare(before, after, part)
    changed = " as changed here" if options.sets or options.overlays else ""
    sides = {"before": (name, before), "after": (f"{options.profile}{changed}", after)}
    heads = {side: {"source": name, "name": plan.name, "digest": plan.digest} for side, (name, plan) in sides.items()}
    console.show({"same": found.same, **heads, **found.to_json()}, difference_lines(found, **sides))
    raise typer.Exit(0 if found.same else DIFFERS)


def _write(console: Console, options: Options, plan: Plan) -> None:
    from sgdeploy.cli.outdir import write_tree
    from sgdeploy.render.scripts import README, tree
    from sgdeploy.words import plural

    folder = Path(str(options.out))
    count = write_tree(folder, tree(plan, options.templates))
    console.line(f"{plural(count, 'file')} written to {options.out}", written=count, folder=str(options.out))
    console.say(f"{folder / README} says how to run them by hand")
