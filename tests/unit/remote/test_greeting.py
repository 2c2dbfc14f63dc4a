"""What may come before the helper's first words, and what may come instead of them."""

from __future__ import annotations

import pytest

from sgdeploy.remote.channel import Ending
from sgdeploy.remote.greeting import NoGreetingError, greet
from tests.unit.remote.conftest import Script

HELLO = b'SGDEPLOY-NODE {"pid": 7}\n'


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"Welcome to rack 1\n",
        b"no line end",
        b"\x1b]0;title\x07",
        b"\xff\xfe broken \x00\n",
        b"SGDEPLOY-NODE is what we wait for\n",
        b"SGDEPLOY-NODE [1]\n",
        b"x" * 500_000 + b"\n",
    ],
)
async def test_noise_before_the_greeting_is_skipped(before: bytes) -> None:
    first, cut, last = (before + HELLO + b"rest").rpartition(HELLO[:5])
    script = Script(*filter(None, (first, cut, last)))
    greeting = await greet(script, b"source\n", limit=5)
    assert greeting.hello == {"pid": 7}
    assert greeting.rest == b"rest"
    assert len(greeting.noise) <= 2048
    assert script.written == b"source\n"


async def test_silence_ends_after_the_limit() -> None:
    with pytest.raises(NoGreetingError) as caught:
        await greet(Script(b"Password expired. New password: "), b"", limit=0.05)
    assert (caught.value.why, caught.value.noise) == ("silent", "Password expired. New password:")


async def test_endless_noise_ends_after_a_mebibyte() -> None:
    with pytest.raises(NoGreetingError) as caught:
        await greet(Script(*[b"spam\n" * 10_000] * 100), b"", limit=5)
    assert (caught.value.why, caught.value.noise) == ("noise", "spam")


@pytest.mark.parametrize(
    ("ending", "not_found"),
    [
        (Ending(code=127, last_words="bash: line 1: exec: python3: not found"), True),
        (Ending(code=1, last_words="python3: Command not found."), True),
        (Ending(code=1, last_words="This account is currently not available."), False),
        (Ending(signal="SIGKILL"), False),
    ],
)
async def test_an_early_end_tells_a_missing_program_from_the_rest(ending: Ending, *, not_found: bool) -> None:
    with pytest.raises(NoGreetingError) as caught:
        await greet(Script(b"hello\n", ending=ending), b"", limit=5)
    assert (caught.value.why, caught.value.not_found, caught.value.noise) == ("ended", not_found, "hello")
