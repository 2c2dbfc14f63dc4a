"""`rollback --to`: every form in which a digest is shown, and nothing else."""

from __future__ import annotations

import pytest
import typer

from sgdeploy.cli.rollback import plan_digest
from tests.unit.cli.conftest import Call

BEGIN = "3f2a91c04d7be850"


@pytest.mark.parametrize("text", [BEGIN, BEGIN.upper(), f"sha256:{BEGIN}", BEGIN * 4, f"sha256:{BEGIN * 4}"])
def test_a_digest_in_any_form_means_its_plan(text: str) -> None:
    assert plan_digest(text) == BEGIN


def test_the_begin_of_one_is_enough() -> None:
    assert plan_digest("3f2") == "3f2"


@pytest.mark.parametrize("text", ["", " ", "sha256:", "latest", "../x", "0" * 65])
def test_what_is_no_digest_means_no_plan(call: Call, text: str) -> None:
    with pytest.raises(typer.BadParameter):
        plan_digest(text)
    done = call("rollback", "tiny.yaml", "--to", text)
    assert done.code == 2
    assert "must be the begin of a plan's digest" in done.err
