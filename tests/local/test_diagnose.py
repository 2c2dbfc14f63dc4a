"""`diagnose` after `up` and `down` have stopped what ran: the end that we made is no fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.local.kit import NAME, Ground

pytestmark = pytest.mark.timeout(300)


def test_after_an_ordinary_down_nothing_is_wrong(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    ground.well("down", NAME)
    ended = ground.run("diagnose", profile)
    assert ended.returncode == 0, ended.stdout
    assert "nothing wrong found in 3 logs until sgdeploy took it down at 20" in ended.stdout


def test_after_up_has_stopped_a_hang_the_cause_is_the_one_it_named(ground: Ground) -> None:
    """An earlier run in the same log, which failed otherwise, is no cause of this one."""
    fail = "engine.env.SGDEPLOY_REHEARSE_FAIL"
    profile = str(ground.profile())
    assert ground.run("up", profile, "--set", f"{fail}=unknown-flag=--foo").returncode != 0
    hung = ground.run("up", profile, "--json", "--set", f"{fail}=hang@load:n1", "--set", "health.stall=4s")
    (told,) = json.loads(hung.stdout.splitlines()[-1])["causes"]
    assert (told["rule"], told["host"]) == ("lags-behind", ground.host(2))
    ended = ground.run("diagnose", profile, "--json")
    assert ended.returncode == 6
    (found,) = json.loads(ended.stdout)["findings"]
    assert (found["rule"], found["host"]) == ("lags-behind", ground.host(2))
    (line,) = found["evidence"]
    assert Path(line["path"]).read_text().splitlines()[line["line"] - 1] == line["text"]
