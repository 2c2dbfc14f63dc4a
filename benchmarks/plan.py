"""How long a plan and its scripts take, from the profile's text to the text of every script, in a fresh process.

The rival is Jinja2 alone: the same variables and command lines, filled in without data model, checks or quoting.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.measure import Aim, Figures, Table, environment, in_turn, keep, program, reported, words

PROFILE = """
version: 1
extends: shipped:kunpeng/deepseek-v3-native.yaml
name: large
inventory:
  version: 1
  ssh: {{user: root}}
  defaults: {{nic: enp26s0f0}}
  groups: {{rack1: "10.0.[0-{last}].[1-{each}]"}}
native: {{hosts: rack1, parallel: {{tp: {ranks}}}}}
"""
RANKS_PER_HOST, HOSTS_PER_BLOCK = 16, 16
TEMPLATE = """\
{% for name, value in process.env.items() %}
export {{ name }}={{ value }}
{% endfor %}
exec \\
{% for word in process.argv %}
  {{ word }} \\
{% endfor %}
"""
OURS, PLAN, RENDER, JINJA = "plan + render", "of it, plan", "of it, render", "Jinja2 alone"
COMMAND = "sgdeploy plan --out, whole"


def once(profile: Path) -> Figures:
    """Plan and render in this very process; the interpreter's start and the imports are not counted."""
    from jinja2 import Template

    from sgdeploy.plan.compile import compile_profile
    from sgdeploy.render.scripts import tree

    begin = time.perf_counter()
    plan = compile_profile(profile).plan
    planned = time.perf_counter()
    tree(plan)
    rendered = time.perf_counter()
    template = Template(TEMPLATE, trim_blocks=True)
    for process in plan.processes:
        template.render(process=process)
    filled = time.perf_counter()
    return {
        OURS: rendered - begin,
        PLAN: planned - begin,
        RENDER: rendered - planned,
        JINJA: filled - rendered,
    }


def measured(hosts: int, runs: int) -> Table:
    """Measure one size, and the whole command, which also starts Python and writes the files."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "large.yaml")
        blocks = max(1, hosts // HOSTS_PER_BLOCK)
        text = PROFILE.format(last=blocks - 1, each=hosts // blocks, ranks=RANKS_PER_HOST * hosts)
        profile.write_text(text, encoding="utf-8")
        place = {"cwd": folder, "env": environment()}
        rivals = {
            "": partial(reported, [sys.executable, "-m", "benchmarks.plan", "--once", profile], **place),
            COMMAND: partial(program, [sys.executable, "-m", "sgdeploy", "plan", profile, "--out", "out"], **place),
        }
        series = in_turn(rivals, runs)
    return Table(f"{RANKS_PER_HOST * hosts} processes on {hosts} hosts", JINJA, RANKS_PER_HOST * hosts, series)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--once"]:
        json.dump(once(Path(sys.argv[2])), sys.stdout)
        return
    given = words(__doc__ or "", runs=7, sizes=(16, 64, 256))
    tables = [measured(hosts, given.runs) for hosts in given.sizes]
    for table in tables:
        table.show([Aim(OURS, 1.0)])
    keep(tables, given.keep)


if __name__ == "__main__":
    main()
