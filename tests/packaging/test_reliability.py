"""The fault matrix on its page: every fault has a test, and the table says what the tests claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.matrix import BEGIN, CHECKOUT, END, FAULTS, PAGE, Claim, Heard, Row, claims, refresh, rows_of

CLAIMS = claims(CHECKOUT / "tests")


def test_every_fault_has_a_test() -> None:
    assert [fault for fault in FAULTS if fault not in {claim.fault for claim in CLAIMS}] == []


def test_the_table_lists_exactly_the_tests_of_the_matrix_and_what_they_claim() -> None:
    """Seconds may be those of another machine; SGDEPLOY_REFRESH_GOLDEN=1 with the cluster tests takes them anew."""
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    order = sorted(CLAIMS, key=lambda claim: (FAULTS.index(claim.fault), claim.test))
    assert list(rows) == [claim.test for claim in order]
    for claim in order:
        fault, message, code, *_ = (cell.strip() for cell in rows[claim.test].strip("|").split(" | "))
        assert (fault, code) == (claim.fault, str(claim.code))
        assert message == claim.told or claim.pattern.search(message), claim.test


CLAIM = Claim("test_x::test_it", FAULTS[0], "n05: … refuses connections", 5)


@pytest.mark.parametrize(
    ("text", "code"),
    [("n05: all is well", 5), ("n05 refuses connections", 5), ("n05: it refuses connections", 0)],
    ids=["other words", "a part is missing", "another exit code"],
)
def test_what_was_not_told_as_claimed_fails(text: str, code: int) -> None:
    with pytest.raises(AssertionError):
        Heard(CLAIM)(text, code)


def test_a_run_of_some_tests_renews_their_rows_alone(tmp_path: Path) -> None:
    other = Claim("test_y::test_other", FAULTS[1], "no", 3)
    gone = Claim("test_z::test_gone", FAULTS[2], "no", 3)
    page = tmp_path / "page.md"
    page.write_text(
        f"# Head\n\n{BEGIN}\n{Row(other, 'no', 1.0).markdown()}\n{Row(gone, 'no').markdown()}\n{END}\ntail\n"
    )
    taken = Heard(CLAIM)
    for seconds in (1.0, 2.54, 0.1):
        taken("error:\n  n05: it | refuses\n  connections", 5, seconds)
    refresh(page, taken.rows, [other, CLAIM])
    text = page.read_text()
    assert list(rows_of(text)) == [CLAIM.test, other.test]
    assert rows_of(text)[CLAIM.test] == (
        f"| {FAULTS[0]} | n05: it ¦ refuses connections | 5 | 2.5 s | `{CLAIM.test}` |"
    )
    assert text.startswith("# Head")
    assert text.endswith("tail\n")
