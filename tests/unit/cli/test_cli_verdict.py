"""However a command ends, it ends with the right code, the right words and no secrets."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgdeploy import __version__
from sgdeploy.cli.desk import Desk
from sgdeploy.cli.redact import redact, redact_words
from sgdeploy.cli.verdict import Verdict
from sgdeploy.errors import (
    CancelledRunError,
    GivenUpError,
    HostsError,
    LeftoverError,
    LockedError,
    NotRunningError,
    PreflightError,
    ProfileError,
    RemoteError,
    SgdeployError,
    StartupError,
    StateError,
    UnconfirmedError,
    UnrecordedError,
    UnsetSecretError,
    UsageError,
    WaitTimeoutError,
)
from sgdeploy.problems import Problem
from sgdeploy.remote.base import LostHostError, NodeError
from sgdeploy.render.quote import RenderError

FAMILY: dict[SgdeployError, int] = {
    SgdeployError("x"): 70,
    UsageError("x"): 2,
    ProfileError([Problem("x")]): 2,
    RenderError("x"): 2,
    UnsetSecretError("x", []): 2,
    PreflightError("x", []): 3,
    NodeError("n01", "denied", "x", {}): 3,
    LockedError("x"): 4,
    HostsError("x", []): 5,
    RemoteError("x", []): 5,
    LostHostError("n01", "x"): 5,
    LeftoverError("x", []): 5,
    StartupError("x", []): 6,
    WaitTimeoutError("x", []): 7,
    StateError("x"): 8,
    UnrecordedError("x", []): 8,
    UnconfirmedError("x"): 8,
    NotRunningError("x"): 9,
    CancelledRunError("x"): 130,
    GivenUpError("x"): 130,
}


class Ended:
    """How the body of a verdict ended: the code, and what stands on stderr."""

    def __init__(self, error: BaseException, home: Path, *words: str, **environ: str) -> None:
        """Raise the error inside a verdict."""
        err = io.StringIO()
        self.desk = Desk(words, {"XDG_STATE_HOME": str(home), **environ}, io.StringIO(), err)
        self.desk.secret_names = frozenset({"MODEL_DOOR"})
        verdict = Verdict(self.desk)
        with verdict:
            raise error
        self.code, self.err = verdict.code, err.getvalue()

    @property
    def report(self) -> Path:
        """The debug file that was named."""
        return Path(self.err.partition("hint: ")[2].split()[0])


@pytest.mark.parametrize(("error", "code"), FAMILY.items(), ids=[type(error).__name__ for error in FAMILY])
def test_each_error_has_its_code(error: SgdeployError, code: int, tmp_path: Path) -> None:
    ended = Ended(error, tmp_path)
    assert ended.code == code == error.exit_code
    assert "x" in ended.err
    assert not (tmp_path / "sgdeploy").exists()  # no debug file for what is not our fault


def descendants(kind: type[SgdeployError]) -> Iterator[type[SgdeployError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("sgdeploy."):
            yield child
            yield from descendants(child)


def test_the_table_of_codes_covers_the_whole_family() -> None:
    public = {kind for kind in descendants(SgdeployError) if kind.__module__ == "sgdeploy.errors"}
    assert public <= {type(error) for error in FAMILY}


@pytest.mark.parametrize(
    ("error", "code"),
    [(SystemExit(), 0), (SystemExit(9), 9), (SystemExit("text"), 1), (KeyboardInterrupt(), 130)],
)
def test_ends_that_are_no_errors(error: BaseException, code: int, tmp_path: Path) -> None:
    assert Ended(error, tmp_path).code == code


def test_our_own_fault_leaves_a_debug_file_without_secrets(tmp_path: Path) -> None:
    ended = Ended(
        ValueError("cannot read hunter2 with s3cr3t-value: api_key='abc'"),
        tmp_path,
        "up",
        "x.yaml",
        "--set",
        "engine.env.HF_TOKEN=hf_123",
        MODEL_DOOR="hunter2",
        SOME_API_KEY="s3cr3t-value",
        PLAIN="visible",
    )
    assert ended.code == 70
    assert "error: sgdeploy failed: ValueError: cannot read" in ended.err
    assert stat.S_IMODE(ended.report.stat().st_mode) == 0o600
    text = ended.report.read_text()
    assert f"sgdeploy: {__version__}" in text
    assert "pydantic: " in text
    assert "Traceback (most recent call last)" in text
    assert "command: sgdeploy up x.yaml --set 'engine.env.HF_TOKEN=[hidden]'" in text
    for secret in ("hunter2", "s3cr3t-value", "hf_123", "abc"):
        assert secret not in text
        assert secret not in ended.err
    assert "[MODEL_DOOR hidden]" in text


def test_without_a_place_for_the_debug_file_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(occupied))
    ended = Ended(ValueError("x"), occupied)
    assert ended.code == 70
    assert "no debug file could be written" in ended.err


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("--set a.api_key=abc", "--set a.api_key=[hidden]"),
        ("password: 'a b' and more", "password: [hidden] and more"),
        ("GET http://x/health", "GET http://x/health"),
        ("value hunter2!", "value [DOOR hidden]!"),
        ("short ab stays", "short ab stays"),
    ],
)
def test_redaction(text: str, safe: str) -> None:
    assert redact(text, {"DOOR": "hunter2", "OTHER_KEY": "ab"}, {"DOOR"}) == safe


def test_a_flag_and_its_secret_may_be_words_of_their_own() -> None:
    assert redact_words(["--api-key", "abc", "--port", "1"], {}, ()) == ["--api-key", "[hidden]", "--port", "1"]
