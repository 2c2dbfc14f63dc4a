"""Host ranges in both notations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgdeploy.profile.hosts import MAX_HOSTS, HostRangeError, expand, scan

SPECS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "ip_specs.json").read_text())


@pytest.mark.parametrize("case", [case for case in SPECS if "hosts" in case["expected"]], ids=lambda case: case["spec"])
def test_recorded_specs(case: dict[str, Any]) -> None:
    assert expand(case["spec"]) == case["expected"]["hosts"]


@pytest.mark.parametrize("case", [case for case in SPECS if "error" in case["expected"]], ids=lambda case: case["spec"])
def test_recorded_specs_that_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(HostRangeError, match=case["expected"]["error"]):
        expand(case["spec"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,20]", ["node01", "node02", "node03", "node20"]),
        ("node[01 - 02, 05]", ["node01", "node02", "node05"]),
        ("node[8-11]", ["node8", "node9", "node10", "node11"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("node[098-101]", ["node098", "node099", "node100", "node101"]),
        ("node[01:03]", ["node01", "node02", "node03"]),
        ("rack[1-2]n[01-02].lab", ["rack1n01.lab", "rack1n02.lab", "rack2n01.lab", "rack2n02.lab"]),
        ("n1, n2\n n3\tn4", ["n1", "n2", "n3", "n4"]),
        ("10.0.0.[08-10]", ["10.0.0.8", "10.0.0.9", "10.0.0.10"]),
        ("fd00::[1-2] fe80::1", ["fd00::1", "fd00::2", "fe80::1"]),
        ("10.0.0. | 1-2, gw.lab", ["10.0.0.1", "10.0.0.2", "gw.lab"]),
        ("gw 10.0.0. | 1", ["gw", "10.0.0.1"]),
        ("[1-2]a", ["1a", "2a"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message", "part"),
    [
        ("n1, node[1-3", "unclosed bracket", "[1-3"),
        ("node1-3]", "a `]` without its `[`", "]"),
        ("node[]", "empty range in brackets", "]"),
        ("node[1,,3]", "empty range in brackets", ","),
        ("node[5-3]", "reversed range `5-3`", "5-3"),
        ("node[1-2,a-c]", "not a number or range: `a-c`", "a-c"),
        ("node[1-10:2]", "not a number or range: `1-10:2`", "1-10:2"),
        ("node[1-03]", "`1-03` pads its two ends differently", "1-03"),
        ("node[[1]]", "a bracket inside a bracket", "[1"),
        ("a b[0-70000]", "too many hosts: 70,001, the limit is 65,536", "b[0-70000]"),
        ("n[1-999]m[1-999]", "too many hosts: 998,001, the limit is 65,536", "n[1-999]m[1-999]"),
        ("n[1-99999999999]", "too many hosts: `1-99999999999`", "1-99999999999"),
        ("a, b, a", "duplicate host `a`", "a"),
        ("n[1-3] n2", "duplicate host `n2`", "n2"),
        ("10.0.0.256", "octet above 255 in `10.0.0.256`", "10.0.0.256"),
        ("10.0.0.[250-256]", "octet above 255 in `10.0.0.256`", "10.0.0.[250-256]"),
        ("10.0.0.010", "leading zero in the address `10.0.0.010`", "10.0.0.010"),
        ("10.0.0", "`10.0.0` is no IPv4 address: it has four numbers", "10.0.0"),
        ("10.0.0 | 1-4", "the prefix before `|` is three numbers and a dot, such as 10.0.0., not `10.0.0`", "10.0.0"),
        ("node | 1-4", "the prefix before `|` is three numbers and a dot, such as 10.0.0., not `node`", "node"),
        ("300.0.0. | 1", "octet above 255 in `300.0.0.`", "300.0.0."),
        ("| 1-4", "a range without its prefix", "|"),
        ("10.0.0. | 1-2, node5", "not a number or range: `node5`", "node5"),
        ("10.0.0. | 1-2 | 5", "not a number or range: `1-2`", "1-2"),
        ("1-16", "`1-16` is neither a host name nor an address", "1-16"),
        ("n1; reboot", "`n1;` is no host name", "n1;"),
        ("root@n1", "`root@n1` is no host name", "root@n1"),
        ("n1:22", "`n1:22` is no host name", "n1:22"),
        ("-oProxyCommand=x", "`-oProxyCommand=x` is no host name", "-oProxyCommand=x"),
        ("x.x.x.x", "placeholder not filled in: `x.x.x.x`", "x.x.x.x"),
        ("<host>", "placeholder not filled in: `<host>`", "<host>"),
        ("nodeXXX", "placeholder not filled in: `nodeXXX`", "nodeXXX"),
        ("节点1", "`节点1` is no host name", "节点1"),
        ("a" * 254, f"`{'a' * 254}` is no host name", "a" * 254),
        ("n1 [fd00::1]", "an IPv6 address in brackets: `[fd00::1]`", "[fd00::1]"),
        ("[FD00:0::1]:22", "an IPv6 address in brackets: `[FD00:0::1]:22`", "[FD00:0::1]:22"),
        ("fd00::1 fd00:0::1", "duplicate host `fd00::1`", "fd00:0::1"),
    ],
)
def test_refusals_point_at_the_part(text: str, message: str, part: str) -> None:
    with pytest.raises(HostRangeError) as caught:
        expand(text)
    error = caught.value
    assert error.message == message
    pointed = text[error.offset : error.offset + error.width]
    assert pointed == part


def test_the_limit_counts_all_parts() -> None:
    assert len(expand(f"n[1-{MAX_HOSTS}]")) == MAX_HOSTS
    with pytest.raises(HostRangeError, match="too many hosts"):
        expand(f"n[1-{MAX_HOSTS}] one-more")


def test_scan_tells_how_a_name_was_written() -> None:
    kinds = [(one.name, one.kind) for one in scan("a 10.0.0. | 7, fd00::1 b[1-2]")]
    expected = [("a", "name"), ("10.0.0.7", "address"), ("fd00::1", "address"), ("b1", "range"), ("b2", "range")]
    assert kinds == expected


@given(st.integers(0, 900), st.integers(0, 60), st.integers(1, 5), st.sampled_from(["node", "rack-1.n", "a"]))
def test_a_written_range_comes_back(first: int, more: int, width: int, prefix: str) -> None:
    names = [f"{prefix}{str(number).zfill(width)}" for number in range(first, first + more + 1)]
    text = f"{prefix}[{str(first).zfill(width)}-{str(first + more).zfill(width)}]"
    assert expand(text) == names


@given(st.text(st.sampled_from("n1 0.,|-[]x:a9\n@"), max_size=24))
def test_any_text_gives_names_or_a_refusal_inside_it(text: str) -> None:
    try:
        names, error = expand(text), None
    except HostRangeError as caught:
        names, error = [], caught
    if error is not None:
        assert 0 <= error.offset <= len(text)
        assert error.width >= 1
        assert error.offset + error.width <= max(1, len(text))
    else:
        assert names
        assert len(set(names)) == len(names)
        assert [name for one in names for name in expand(one)] == names
