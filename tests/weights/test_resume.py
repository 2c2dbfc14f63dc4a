"""A run that is killed anywhere leaves a state that the next one finishes, to the same bytes."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sgdeploy.errors import StateError
from sgdeploy.weights.cut.manifest import FILES as LIST
from sgdeploy.weights.cut.manifest import HEAD
from sgdeploy.weights.disk.split import How, Split
from sgdeploy.weights.disk.verify import verify
from sgdeploy.weights.worker import copy, sign, writer
from sgdeploy.weights.worker.journal import JOURNAL, Journal
from sgdeploy.weights.worker.writer import Counters
from tests.weights.writing import hashes, ignore, never, prepared, unheard, write

BYTES = 569_600
"""What the split of the small checkpoint writes, about."""

POINTS = 24
FILES = 24
"""Files that are really written; eight more are links."""

Arm = Callable[[pytest.MonkeyPatch], None]


def die(*_: object, **__: object) -> None:
    """End this process as a power cut does."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed(model: Path, out: Path, arm: Arm) -> None:
    """Split in a child process that ``arm`` has made kill itself at some point; fail if it lives to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            arm(pytest.MonkeyPatch())
            Split(prepared(model, out), out, How(2)).run(ignore, never)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the run ended before it was killed"
    assert os.WTERMSIG(status) == signal.SIGKILL


def after_bytes(count: int) -> Arm:
    """Kill once so many bytes are written, in the middle of a file."""

    def arm(patch: pytest.MonkeyPatch) -> None:
        add, seen = Counters.add, [0]

        def counted(self: Counters, more: int) -> None:
            seen[0] += more
            if seen[0] >= count:
                die()
            add(self, more)

        patch.setattr(copy, "BUFFER", 4096)
        patch.setattr(Counters, "add", counted)

    return arm


def at_call(owner: object, name: str, number: int, *, before: bool) -> Arm:
    """Kill right before or right after the n-th call of a function."""

    def arm(patch: pytest.MonkeyPatch) -> None:
        function, calls, lock = getattr(owner, name), [0], threading.Lock()

        def counted(*words: object, **named: object) -> object:
            with lock:
                calls[0] += 1
                mine = calls[0] == number
            if mine and before:
                die()
            result = function(*words, **named)
            if mine:
                die()
            return result

        patch.setattr(owner, name, counted)

    return arm


def somewhere(seed: int) -> int:
    """Give a number of bytes that looks random and is the same in every run."""
    return int.from_bytes(hashlib.sha256(bytes([seed])).digest()[:4], "big") % BYTES


@pytest.fixture(scope="module")
def good(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Split once without any trouble, and give the hashes."""
    out = tmp_path_factory.mktemp("good") / "out"
    write(pristine, out)
    return hashes(out)


def resumed(model: Path, out: Path, good: dict[str, str]) -> int:
    """Run again, prove that it is what a run without trouble gives, and tell how many files were found done."""
    done = write(model, out)
    assert done.complete
    assert hashes(out) == good
    assert verify(out, 2, unheard, never) is not None
    return done.found


@pytest.mark.parametrize("seed", range(POINTS))
def test_killed_in_the_middle_of_a_file(pristine: Path, tmp_path: Path, good: dict[str, str], seed: int) -> None:
    out = tmp_path / "out"
    killed(pristine, out, after_bytes(somewhere(seed)))
    assert not (out / HEAD).exists()
    assert (out / JOURNAL).exists()
    resumed(pristine, out, good)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (Journal, "record", 1),
        (Journal, "record", FILES),
        (writer, "replicate", 3),
        (sign, "copy_others", 1),
        (sign, "_write", 1),
        (sign, "_write", 3),
        (Journal, "remove", 1),
    ],
)
def test_killed_between_two_steps(
    pristine: Path, tmp_path: Path, good: dict[str, str], owner: object, name: str, number: int, *, before: bool
) -> None:
    out = tmp_path / "out"
    killed(pristine, out, at_call(owner, name, number, before=before))
    resumed(pristine, out, good)


def test_killed_again_and_again_it_still_gets_on(pristine: Path, tmp_path: Path, good: dict[str, str]) -> None:
    out = tmp_path / "out"
    for _ in range(5):
        killed(pristine, out, at_call(Journal, "record", 4, before=False))
    assert resumed(pristine, out, good) >= 5 * 4


def test_what_was_finished_is_not_written_again(pristine: Path, tmp_path: Path, good: dict[str, str]) -> None:
    out = tmp_path / "out"
    killed(pristine, out, at_call(Journal, "record", 10, before=False))
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("model-rank-*")}
    assert 10 <= len(kept) < FILES
    found = resumed(pristine, out, good)
    assert found >= 10
    assert sum(path.stat().st_mtime_ns == time for path, time in kept.items()) >= found


def test_a_stop_leaves_whole_files_and_no_others(pristine: Path, tmp_path: Path, good: dict[str, str]) -> None:
    out = tmp_path / "out"
    some = Split(prepared(pristine, out), out, How(1))
    done = some.run(ignore, lambda: len(list(out.glob("model-rank-*"))) > 2)
    assert not done.complete
    assert done.files < done.of_files
    assert not (out / HEAD).exists()
    assert not list(out.rglob("*.partial"))
    resumed(pristine, out, good)


def test_a_damaged_journal_costs_time_and_nothing_else(pristine: Path, tmp_path: Path, good: dict[str, str]) -> None:
    out = tmp_path / "out"
    killed(pristine, out, at_call(Journal, "record", 10, before=False))
    journal = out / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-7])
    assert resumed(pristine, out, good) >= 8


def exchanged(shard: Path) -> None:
    """Put another file in a shard's place: same size, same header, other weights."""
    body = bytearray(shard.read_bytes())
    body[-100:] = bytes(100)
    other = shard.with_name("other")
    other.write_bytes(body)
    other.replace(shard)


def split_of(model: Path, out: Path) -> dict[str, str]:
    write(model, out)
    return weights(out)


def weights(out: Path) -> dict[str, str]:
    return {path: digest for path, digest in hashes(out).items() if path not in {LIST, HEAD, f"mtp/{HEAD}"}}


@pytest.mark.parametrize("finished", [True, False])
def test_a_shard_that_was_exchanged_in_between(model: Path, tmp_path: Path, *, finished: bool) -> None:
    """What an earlier run has made from the old one is made again, whether that run came to its end or not."""
    out = tmp_path / "out"
    if finished:
        write(model, out)
    else:
        killed(model, out, at_call(Journal, "record", 10, before=False))
    old = {path.name for path in out.glob("model-rank-*")}
    exchanged(model / "model-00002-of-00003.safetensors")
    done = write(model, out)
    assert (done.complete, done.found) == (True, 0)
    assert 10 <= done.stale <= len(old) + 16
    assert weights(out) == split_of(model, tmp_path / "anew")
    again = write(model, out)
    assert (again.found, again.stale) == (32, 0)


def test_a_shard_that_is_exchanged_while_it_is_read(model: Path, tmp_path: Path) -> None:
    """Nothing is signed, and the next run makes all of it again."""
    out = tmp_path / "out"
    ready = Split(prepared(model, out), out, How(1))
    asked = [0]

    def harm() -> bool:
        asked[0] += 1
        if asked[0] == 20:
            exchanged(model / "model-00002-of-00003.safetensors")
        return False

    with pytest.raises(StateError, match="is another file than when the split was begun"):
        ready.run(ignore, harm)
    assert not (out / HEAD).exists()
    assert write(model, out).stale > 0
    assert weights(out) == split_of(model, tmp_path / "anew")


def test_a_shard_with_another_header_than_the_plans(model: Path, tmp_path: Path) -> None:
    """Between planning and writing; nothing is written then."""
    out = tmp_path / "out"
    ready = Split(prepared(model, out), out, How(1))
    one, two = model / "model-00001-of-00003.safetensors", model / "model-00002-of-00003.safetensors"
    two.write_bytes(one.read_bytes())
    with pytest.raises(StateError, match=r"model-00002-of-00003\.safetensors is another file than when"):
        ready.run(ignore, never)
    assert not list(out.glob("model-rank-*"))


def test_a_finished_file_that_was_damaged_since(pristine: Path, tmp_path: Path, good: dict[str, str]) -> None:
    """The manifest has signed for it; it has its size, and somebody has written to it."""
    out = tmp_path / "out"
    write(pristine, out)
    part = out / "model-rank-5-part-1.safetensors"
    signed = (out / LIST).stat().st_mtime_ns
    with part.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    os.utime(part, ns=(signed + 10**9, signed + 10**9))
    assert hashes(out) != good
    assert write(pristine, out).found == 31
    assert hashes(out) == good


def test_files_of_other_ranks_stay_signed_whatever_their_time(pristine: Path, tmp_path: Path) -> None:
    """A split that was copied without its times, and gets further ranks: these are not ours to make again."""
    out = tmp_path / "out"
    write(pristine, out, ranks="0-3")
    for path in out.rglob("model-rank-*"):
        os.utime(path)
    write(pristine, out, ranks="4-7")
    found = verify(out, 2, unheard, never)
    assert found is not None
    assert found.head.ranks == "0-7"
