"""Engine and router: whether the Python that a process will find, once its environment is active, has them."""

from __future__ import annotations

from collections.abc import Iterator

from sgdeploy.facts.model import Finding
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, simulated
from sgdeploy.plan.model import Process
from sgdeploy.words import name_list

_PREFIX = "installed "
"""Of the names of these commands among all that are run."""

_LOOK = r"""
python=$1 package=$2 path=$3 modules=$4
shift 4
items=("$@")
set --  # what is sourced would take our words for its own
for item in "${items[@]}"; do
  rest=${item#*:}
  case $item in
    conda:*) hook=$("${rest%:*}/bin/conda" shell.bash hook) && eval "$hook" && conda activate "${rest##*:}" ;;
    venv:*) source "$rest/bin/activate" ;;
    *) source "$rest" ;;
  esac
done >/dev/null 2>&1
export PATH=$path$PATH PYTHONPATH=$modules$PYTHONPATH
command -v -- "$python" >/dev/null || { echo "none"; exit; }
"$python" -c '
import sys
from importlib.util import find_spec
print("there" if find_spec(sys.argv[1]) else "lacks " + sys.executable)' "$package"
"""
"""What the launch script does before it starts the engine, without the engine; a look imports nothing."""


def wanted(processes: tuple[Process, ...]) -> Wanted:
    """Ask each Python that runs a package as a program whether it has it."""
    return Wanted(
        commands={_name(words): ("bash", "-c", _LOOK, "bash", *words) for words in map(_words, processes) if words}
    )


def _words(process: Process) -> tuple[str, ...]:
    """Give what tells one such look from others, () where a process is no package of a Python of the host."""
    if simulated(process) or 0 in process.in_run_dir or process.argv[1:2] != ("-m",):
        return ()
    package = process.argv[2].partition(".")[0]
    folders = ("".join(f"{path}:" for path in process.env_prepend.get(name, ())) for name in ("PATH", "PYTHONPATH"))
    own = process.env.get("PYTHONPATH")
    path, modules = folders
    return (process.argv[0], package, path, f"{modules}{own}:" if isinstance(own, str) else modules, *process.activate)


def _name(words: tuple[str, ...]) -> str:
    return _PREFIX + " ".join(words)


def installed(raw: Raw) -> dict[str, str]:
    """Read the answers that there are: name of the command → ``there``, ``lacks PYTHON``, ``none``."""
    names = [name for name in raw.part("commands") if name.startswith(_PREFIX)]
    answers = {name: (raw.output(name) or "").strip().rpartition("\n")[2] for name in names}
    return {name: answer for name, answer in answers.items() if answer}


def check(subject: Subject) -> Iterator[Finding]:
    """Warn where a package is not found: an environment may still find it in a way that a look cannot see."""
    lacking: dict[str, None] = {}
    for words in filter(None, map(_words, subject.processes)):
        answer = subject.facts.installed.get(_name(words), "there")
        if answer == "none":
            lacking[f"there is no {words[0]} in PATH to run {words[1]}"] = None
        elif answer != "there":
            lacking[f"{answer.partition(' ')[2] or words[0]} has no package {words[1]}"] = None
    if lacking:
        yield subject.warning(
            "not-installed",
            name_list(lacking),
            "install it there, or set engine.python or engine.activate to where it is",
        )
