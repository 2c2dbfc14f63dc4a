"""How long ``sgdeploy --version`` and ``--help`` take, beside Python and typer programs that do nothing."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Aim, Table, environment, in_turn, keep, program, words

OURS = "import sys\nfrom sgdeploy.cli.app import main\nsys.exit(main())\n"
"""As pip writes it into ``bin/sgdeploy``."""

EMPTY = """
import typer
app = typer.Typer({options})
@app.command()
def main() -> None:
    "Do nothing."
app()
"""
VERSION, PYTHON = "sgdeploy --version", "python -c pass"
HELP, TYPER, BARE_TYPER = "sgdeploy --help", "empty typer program --help", "the same without rich"


def main() -> None:
    """Measure and print."""
    given = words(__doc__ or "", runs=21)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.py") for name in ("ours", "typer_rich", "typer_bare")}
        files["ours"].write_text(OURS, encoding="utf-8")
        files["typer_rich"].write_text(EMPTY.format(options=""), encoding="utf-8")
        files["typer_bare"].write_text(EMPTY.format(options="rich_markup_mode=None"), encoding="utf-8")
        run = partial(program, cwd=folder, env=environment())
        python = sys.executable
        version = {
            PYTHON: partial(run, [python, "-c", "pass"]),
            VERSION: partial(run, [python, files["ours"], "--version"]),
            "python -m sgdeploy --version": partial(run, [python, "-m", "sgdeploy", "--version"]),
        }
        helps = {
            TYPER: partial(run, [python, files["typer_rich"], "--help"]),
            BARE_TYPER: partial(run, [python, files["typer_bare"], "--help"]),
            HELP: partial(run, [python, files["ours"], "--help"]),
        }
        first = Table("--version", PYTHON, series=in_turn(version, given.runs))
        second = Table("--help", TYPER, series=in_turn(helps, given.runs))
    first.show([Aim(VERSION, 2, PYTHON)])
    second.show([Aim(HELP, 1.5, TYPER), Aim(HELP, 1.5, BARE_TYPER)])
    keep([first, second], given.keep)


if __name__ == "__main__":
    main()
