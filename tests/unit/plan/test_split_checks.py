"""What a plan refuses or doubts across roles and about the router: each check in its exact words, at its place.

``python -m tests.unit.plan.test_split_checks`` from the top of the checkout writes ``data/split.yaml`` anew.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from sgdeploy.errors import ProfileError
from sgdeploy.plan.compile import compile_profile
from sgdeploy.problems import Problem
from tests.unit.plan import conftest

DATA = Path(__file__).resolve().parent / "data" / "split.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
CODES = {
    *("address-loopback", "address-twice", "address-unspecified", "bootstrap-unused", "core-clash", "cores-by-rank"),
    *("flag-choice", "flag-owned", "flag-secret-shown", "flag-unknown", "host-shared", "memory-node-clash"),
    *("partition-layers", "partition-stages", "partition-text", "port-clash", "port-ephemeral", "ranks-per-node"),
    *("rendezvous-shared", "router-blind", "router-buckets", "router-groups", "router-groups-order", "router-patience"),
    *("router-policy", "router-pool", "router-shared", "router-unused", "router-version-unknown", "split-balance"),
    *("split-differs", "tokenizer-engine", "tokenizer-variable"),
}

THREE_PREFILLS = (
    "decode={hosts: d1, parallel: {tp: 1}}",
    "prefill.medium={hosts: d2}",
)


def judged(case: dict[str, Any], folder: Path) -> list[Problem]:
    """Compile a case's profile and give its errors and warnings."""
    file = folder / "profile.yaml"
    file.write_text(getattr(conftest, case["profile"]), encoding="utf-8")
    try:
        return list(compile_profile(file, case["set"]).warnings)
    except ProfileError as error:
        return list(error.problems)


def told(problem: Problem) -> dict[str, str]:
    where = ".".join(map(str, problem.path))
    said = {problem.level: f"{problem.code} at {where}", "message": problem.message}
    return said if problem.hint is None else {**said, "hint": problem.hint}


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case["set"]))
def test_each_mistake_in_its_words(case: dict[str, Any], tmp_path: Path) -> None:
    problems = judged(case, tmp_path)
    assert [told(problem) for problem in problems] == case["problems"]
    assert all(problem.place is not None for problem in problems)


def test_every_check_across_roles_has_its_case() -> None:
    seen = {
        entry[level].split()[0] for case in CASES for entry in case["problems"] for level in entry if "err" in level
    }
    seen |= {entry["warning"].split()[0] for case in CASES for entry in case["problems"] if "warning" in entry}
    assert seen >= CODES


@pytest.mark.parametrize(
    ("profile", "overrides"),
    [
        ("PD", ["router.host=p1", "router.port=31000"]),
        ("PD", ["prefill.port=31000", "decode.port=32000", "router.port=8000"]),
        ("PD", ["engine.flags.page-size=64", "engine.flags.kv-cache-dtype=bf16"]),
        ("PD", ["decode.flags.kv-cache-dtype=auto", "prefill.flags.load-balance-method=auto"]),
        ("PD", ["decode.flags.disaggregation-decode-polling-interval=2", "prefill.flags.max-prefill-tokens=64"]),
        (
            "KUNPENG_PD",
            ["model.layers=61", "prefill.b={parallel: {tp: 16, pp: 2}, env: {SGLANG_PP_LAYER_PARTITION: '31,30'}}"],
        ),
        ("KUNPENG_PD", ["router.tokenizer=separate"]),
        ("KUNPENG_PD", ["router.policy=power_of_two", "router.decode_policy=random"]),
        ("BUCKETS", ["router.bucket.balance_abs_threshold=100000"]),
        # Router 0.3.2 parts the lengths among as many as there are; only the topology of two buckets has two.
        ("BUCKETS", ["topology=pd", "router.prefill_policy=bucket", *THREE_PREFILLS]),
        ("BUCKETS", ["router.version=kunpeng", "router.groups={}", "router.bucket=null"]),
    ],
)
def test_what_fits_is_not_doubted(profile: str, overrides: list[str], tmp_path: Path) -> None:
    assert judged({"profile": profile, "set": overrides}, tmp_path) == []


def write() -> None:
    """Write the problems of every case anew; the comments on top stay."""
    head = [line for line in DATA.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        cases = [
            {"profile": case["profile"], "set": case["set"], "problems": [told(p) for p in judged(case, Path(folder))]}
            for case in CASES
        ]
    text = yaml.safe_dump(cases, sort_keys=False, allow_unicode=True, width=400)
    DATA.write_text("\n".join([*head, text]), encoding="utf-8")


if __name__ == "__main__":
    write()
