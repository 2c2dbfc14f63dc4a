"""The fault matrix: every fault that must be told and survived, the tests that prove it, and what those tests heard.

A test of the matrix says so, hears the command out, and hands over what it heard:

    @pytest.mark.fault("host refused", told="n05: … refuses connections: no sshd listens there", code=5)
    def test_…(heard: Heard) -> None:
        ...
        heard(error, code, seconds)

``…`` stands for anything. Where the words, or the code, are not there, the test fails; so does one that hands over
nothing. With ``SGDEPLOY_REFRESH_GOLDEN=1`` the rows of the tests that ran are written into docs/reliability.md.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: made from the tests' own results -->", "<!-- end of faults -->"
REFRESH = "SGDEPLOY_REFRESH_GOLDEN"
GAP = "…"
PLACES = re.compile(r"/tmp/sgdeploy-lab-\w+(?=/)|/\S*/bin(?=/python)")
"""Where a lab and its Python are: of the machine, not of the message."""
LONGEST = 200
"""Characters of a message in the table; of a longer one only the words that were asked for are shown."""

FAULTS = (
    "host refused",
    "wrong key",
    "changed host key",
    "accepts then hangs",
    "dies in mid-upload",
    "disk full",
    "run folder not writable",
    "no python3",
    "port taken by a stranger",
    "rank exits at load",
    "killed by the OOM killer (137)",
    "rank hangs in warm-up",
    "leader green while a follower is dead",
    "scheduler child orphaned",
    "router exits",
    "router never counts a worker",
    "completion returns no token",
    "controller killed at each stage",
    "two up at once",
    "pid reused by a stranger",
    "host rebooted",
    "clock of one host off by an hour",
    "1 of 64 hosts slow by 20 s",
    "log of 1 GiB without newline",
)
"""The rows of the matrix, in the order of the table."""


@dataclass(frozen=True)
class Claim:
    """What one test says of a fault.

    Attributes:
        test: ``file::function``.
        fault: one of ``FAULTS``.
        told: what the operator reads, with gaps.
        code: exit code of the command that tells it.
    """

    test: str
    fault: str
    told: str
    code: int

    @property
    def pattern(self) -> re.Pattern[str]:
        """The words as an expression for a text whose white space is single blanks."""
        parts = [re.escape(" ".join(part.split())) for part in self.told.split(GAP)]
        return re.compile(".*?".join(parts))


@dataclass
class Row:
    """A claim, and what was heard: the message, and the seconds from the fault to its report where they were taken."""

    claim: Claim
    message: str
    seconds: float | None = None

    def markdown(self) -> str:
        """Give the row of the table."""
        took = "" if self.seconds is None else f"{self.seconds:.1f} s"
        cells = (self.claim.fault, self.message.replace("|", "¦"), str(self.claim.code), took, f"`{self.claim.test}`")
        return f"| {' | '.join(cells)} |"


@dataclass
class Heard:
    """Takes what a test heard, and holds it against what the test claims; the slowest of several reports counts."""

    claim: Claim
    rows: list[Row] = field(default_factory=list)

    def __call__(self, text: str, code: int, seconds: float | None = None) -> None:
        """Hand over all that a command said, its exit code, and how long the report took where that was taken."""
        flat = " ".join(text.split())
        found = self.claim.pattern.search(flat)
        assert found is not None, f"{self.claim.told!r} is not in: {text}"
        assert code == self.claim.code, text
        message = PLACES.sub(GAP, found[0]) if len(found[0]) <= LONGEST else self.claim.told
        self.rows.append(Row(self.claim, message, seconds))


def claims(folder: Path) -> list[Claim]:
    """Read the claims of all tests below a folder, without running or importing any."""
    found: list[Claim] = []
    for file in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                marks = (mark for mark in node.decorator_list if isinstance(mark, ast.Call))
                found += [
                    _claim(f"{file.stem}::{node.name}", mark)
                    for mark in marks
                    if ast.unparse(mark.func) == "pytest.mark.fault"
                ]
    return found


def _claim(test: str, mark: ast.Call) -> Claim:
    words = {word.arg: ast.literal_eval(word.value) for word in mark.keywords}
    return Claim(test, ast.literal_eval(mark.args[0]), words["told"], words["code"])


def table(rows: Iterable[str]) -> str:
    """Give the whole table."""
    head = "| fault | what the operator reads | exit code | fault to report | test |\n|---|---|---|---|---|"
    return "\n".join([BEGIN, "", head, *rows, "", END])


def rows_of(page: str) -> dict[str, str]:
    """Give the rows of a page by their test."""
    body = page.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in body.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]
    return {line.rstrip(" |").rpartition("| ")[2].strip("`"): line for line in lines}


# -- the plugin


def _claim_of(item: pytest.Item) -> Claim | None:
    mark = item.get_closest_marker("fault")
    if mark is None:
        return None
    name = getattr(item, "originalname", None) or item.name
    return Claim(f"{item.path.stem}::{name}", mark.args[0], mark.kwargs["told"], mark.kwargs["code"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a mark that nobody could use: a fault that is no row, or a test that cannot hand anything over."""
    for item in items:
        claim = _claim_of(item)
        if claim is not None and claim.fault not in FAULTS:
            message = f"{item.nodeid}: {claim.fault!r} is no row of the fault matrix (tests/kit/matrix.py)"
            raise pytest.UsageError(message)
        if claim is not None and "heard" not in getattr(item, "fixturenames", ()):
            message = f"{item.nodeid}: a test of the fault matrix takes the fixture `heard`"
            raise pytest.UsageError(message)


@pytest.fixture
def heard(request: pytest.FixtureRequest) -> Iterator[Heard]:
    """Take what a test of the matrix heard; afterwards something must have been handed over, unless it failed."""
    claim = _claim_of(request.node)
    assert claim is not None, "only tests with @pytest.mark.fault hear anything"
    taken = Heard(claim)
    yield taken
    if request.node.stash.get(_PASSED, False):
        assert taken.rows, "this test of the fault matrix handed nothing over"
        if request.config.stash[_REFRESHED]:
            refresh(PAGE, taken.rows, claims(CHECKOUT / "tests"))


_PASSED = pytest.StashKey[bool]()
_REFRESHED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Remember whether the page is to be written: tests themselves do not see such settings."""
    config.stash[_REFRESHED] = os.environ.get(REFRESH) == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember for the fixture whether the body of its test passed."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = call.excinfo is None
    return report


def refresh(page: Path, heard_rows: Iterable[Row], claimed: Iterable[Claim]) -> None:
    """Put the rows of tests that ran into the page; those of other tests stay, those of no test go.

    A test of which nothing was heard yet stands there with the words that it claims.
    """
    text = page.read_text(encoding="utf-8")
    rows: Mapping[str, str] = rows_of(text) | {row.claim.test: row.markdown() for row in _slowest(heard_rows)}
    order = sorted(claimed, key=lambda claim: (FAULTS.index(claim.fault), claim.test))
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    made = table(rows.get(claim.test) or Row(claim, claim.told).markdown() for claim in order)
    page.write_text(head + made + tail, encoding="utf-8")


def _slowest(rows: Iterable[Row]) -> Iterable[Row]:
    found: dict[str, Row] = {}
    for row in rows:
        known = found.get(row.claim.test)
        if known is None or (row.seconds or 0.0) > (known.seconds or 0.0):
            found[row.claim.test] = row
    return found.values()
