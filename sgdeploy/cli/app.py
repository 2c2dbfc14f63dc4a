"""The way in: ``main`` runs one command and gives its exit code.

Imports stay inside, so that ``--version`` costs no more than Python itself and ``--help`` no more than typer.
"""

import sys

from sgdeploy import __version__


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return what the process ends with (the codes stand in ``sgdeploy/errors.py``).

    Args:
        argv: the words after the program's name; None for those of this process.
    """
    words = sys.argv[1:] if argv is None else argv
    if words == ["--version"]:
        sys.stdout.write(f"sgdeploy {__version__}\n")
        return 0
    from sgdeploy.cli.desk import Desk
    from sgdeploy.cli.program import call
    from sgdeploy.cli.verdict import Verdict

    desk = Desk.here(words)
    verdict = Verdict(desk)
    with verdict:
        call(words, desk)
    desk.finish()
    return verdict.code
