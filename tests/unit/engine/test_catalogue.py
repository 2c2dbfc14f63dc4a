"""Flags of a profile against the catalogue of an engine version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgdeploy.engine.catalogue import ENGINE, ROUTER, ROUTER_VERSIONS, VERSIONS, Catalogue, Program, catalogue
from sgdeploy.problems import Problem
from sgdeploy.profile.scalars import Secret

PATH = ("engine", "flags")


@pytest.fixture(scope="module")
def stock() -> Catalogue:
    return catalogue("0.5.23")


@pytest.fixture(scope="module")
def fork() -> Catalogue:
    return catalogue("kunpeng")


@pytest.fixture(scope="module")
def router() -> Catalogue:
    return catalogue("0.3.2", ROUTER)


def only(catalogue_: Catalogue, flags: dict[str, Any]) -> Problem:
    _, problems = catalogue_.check(flags, PATH)
    assert len(problems) == 1, problems
    return problems[0]


def words(catalogue_: Catalogue, flags: dict[str, Any]) -> list[str]:
    values, problems = catalogue_.check(flags, PATH)
    assert problems == ()
    return catalogue_.argv(values)


@pytest.mark.parametrize(
    ("program", "expected"),
    [(ENGINE, {"0.5.23": 531, "kunpeng": 533}), (ROUTER, {"0.3.2": 98, "kunpeng": 100})],
    ids=["engine", "router"],
)
def test_every_version_reads_and_names_no_flag_twice(program: Program, expected: dict[str, int]) -> None:
    assert {version: len(catalogue(version, program).flags) for version in program.versions} == expected
    for version in program.versions:
        spellings = [s for spec in catalogue(version, program).flags.values() for s in spec.spellings]
        assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("program", [ENGINE, ROUTER])
def test_an_unknown_version_is_a_key_error(program: Program) -> None:
    with pytest.raises(KeyError, match=r"0\.4"):
        catalogue("0.4", program)


def test_what_a_version_can_do_besides_its_flags(stock: Catalogue, fork: Catalogue, router: Catalogue) -> None:
    assert (stock.rank_launch, stock.tokenizer_apart) == (False, False)
    assert (fork.rank_launch, fork.tokenizer_apart) == (True, True)
    assert [catalogue(version, ROUTER).grouped_routing for version in ROUTER_VERSIONS] == [False, True]
    assert (router.title, fork.title) == ("router 0.3.2", "engine kunpeng")


def test_flags_of_the_router_become_words(router: Catalogue) -> None:
    flags: dict[str, Any] = {
        "health_check_interval_secs": 10000,
        "retry-jitter-factor": 0.5,
        "dp-aware": True,
        "disable-retries": False,
        "request-id-headers": ["x-a", "x-b"],
        "max-concurrent-requests": -1,
    }
    assert words(router, flags) == [
        *("--health-check-interval-secs", "10000", "--retry-jitter-factor", "0.5", "--dp-aware"),
        *("--request-id-headers", "x-a", "x-b", "--max-concurrent-requests", "-1"),
    ]


@pytest.mark.parametrize(
    ("flags", "code", "message", "hint"),
    [
        (
            {"health-check-interval": "10s"},
            "flag-type",
            '`health-check-interval-secs` takes a whole number, got the text "10s"',
            None,
        ),
        (
            {"prefill-short-count": 1},
            "flag-unknown",
            "router 0.3.2 has no flag `prefill-short-count`",
            "`python -m sglang_router.launch_router --help` on a node lists its flags",
        ),
        (
            {"decode-policy": "bucket"},
            "flag-choice",
            '`decode-policy` does not know the text "bucket"',
            "one of: random, round_robin, cache_aware, power_of_two, manual",
        ),
        (
            {"cb": 3},
            "flag-ambiguous",
            "`cb` is short for 4 flags of router 0.3.2",
            (
                "write one of them in full: cb-failure-threshold, cb-success-threshold, cb-timeout-duration-secs, "
                "cb-window-duration-secs"
            ),
        ),
    ],
)
def test_what_is_wrong_with_flags_of_the_router(
    router: Catalogue, flags: dict[str, Any], code: str, message: str, hint: str | None
) -> None:
    problem = only(router, flags)
    assert (problem.code, problem.message, problem.hint) == (code, message, hint)


def test_the_vendors_build_of_the_router_adds_grouped_routing(router: Catalogue) -> None:
    build = catalogue("kunpeng", ROUTER)
    assert set(build.flags) - set(router.flags) == {"prefill-short-count", "prefill-length-threshold"}
    assert words(build, {"prefill-short-count": 1}) == ["--prefill-short-count", "1"]


def test_the_fork_adds_to_its_base(stock: Catalogue, fork: Catalogue) -> None:
    assert fork.check({"enable-dp-mlp": True, "attention-backend": "kunpeng_cpu"}, PATH)[1] == ()
    assert only(stock, {"enable-dp-mlp": True}).code == "flag-unknown"
    assert only(stock, {"attention-backend": "kunpeng_cpu"}).code == "flag-choice"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"page-size": 64}, ["--page-size", "64"]),
        ({"page_size": 64}, ["--page-size", "64"]),
        ({"chunked-prefill-size": -1}, ["--chunked-prefill-size", "-1"]),
        ({"mem-fraction-static": 0.88}, ["--mem-fraction-static", "0.88"]),
        ({"mem-fraction-static": 1}, ["--mem-fraction-static", "1"]),
        ({"context-length": "4k"}, ["--context-length", "4k"]),
        ({"context-length": 4096}, ["--context-length", "4096"]),
        ({"trust-remote-code": True, "skip-server-warmup": False}, ["--trust-remote-code"]),
        ({"dllm-fdfo": True}, ["--dllm-fdfo"]),
        ({"dllm-fdfo": False}, ["--no-dllm-fdfo"]),
        ({"no-dllm-fdfo": True}, ["--no-dllm-fdfo"]),
        ({"no_dllm_fdfo": False}, ["--dllm-fdfo"]),
        ({"cuda-graph-bs-decode": [1, 2, 4]}, ["--cuda-graph-bs-decode", "1", "2", "4"]),
        ({"cuda-graph-bs-decode": 8}, ["--cuda-graph-bs-decode", "8"]),
        ({"lora-target-modules": []}, ["--lora-target-modules"]),
        ({"model-checksum": True}, ["--model-checksum"]),
        ({"model-checksum": "sums.json"}, ["--model-checksum", "sums.json"]),
        ({"preferred-sampling-params": {"top_p": 0.9}}, ["--preferred-sampling-params", '{"top_p":0.9}']),
        ({"sidecar-args": ["--a", 1]}, ["--sidecar-args", '["--a",1]']),
        ({"model-loader-extra-config": {"n": 4}}, ["--model-loader-extra-config", '{"n":4}']),
        ({"model-loader-extra-config": '{"n": 4}'}, ["--model-loader-extra-config", '{"n": 4}']),
        ({"chat-template": "-x y"}, ["--chat-template=-x y"]),
        ({"chat-template": ""}, ["--chat-template", ""]),
        ({"chat-template": None}, []),
        ({"enable-hicache": True}, ["--enable-hierarchical-cache"]),
        ({"tool-call": "deepseekv3"}, ["--tool-call-parser", "deepseekv3"]),
    ],
)
def test_values_become_words(stock: Catalogue, flags: dict[str, Any], expected: list[str]) -> None:
    assert words(stock, flags) == expected


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("dp", "dp-size"),
        ("tp", "tp-size"),
        ("model", "model-path"),
        ("tensor_parallel_size", "tp-size"),
        ("ep", "ep-size"),
        ("--page-size", "page-size"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_aliases_and_abbreviations_are_one_flag(version: str, spelling: str, canonical: str) -> None:
    assert catalogue(version).name_of(spelling) == canonical


def test_every_flag_survives_a_round_trip_through_its_own_kind(stock: Catalogue) -> None:
    samples: dict[str, Any] = {
        "text": "x",
        "whole": 3,
        "number": 0.5,
        "share": 0.88,
        "size": "2k",
        "switch": True,
        "on-off": True,
        "json": {"a": [1]},
        "json-list": [1],
        "json-text": {"a": 1},
    }
    flags = {n: s.choices[0] if s.choices else samples[s.kind] for n, s in stock.flags.items()}
    values, problems = stock.check(flags, PATH)
    assert problems == ()
    argv = stock.argv(values)
    assert [word for word in argv if word.startswith("--")] == [f"--{name}" for name in stock.flags]


@pytest.mark.parametrize(
    ("flags", "code", "message", "hint"),
    [
        (
            {"page-size": "big"},
            "flag-type",
            '`page-size` takes a whole number, got the text "big"',
            None,
        ),
        (
            {"mem-fraction-static": 88},
            "flag-type",
            "`mem-fraction-static` takes a number above 0 and at most 1, got the number 88",
            "for 88 percent write 0.88",
        ),
        (
            {"mem-fraction-static": 0},
            "flag-type",
            "`mem-fraction-static` takes a number above 0 and at most 1, got the number 0",
            None,
        ),
        (
            {"page-size": "64"},
            "flag-type",
            '`page-size` takes a whole number, got the text "64"',
            "remove the quotes",
        ),
        ({"page-size": True}, "flag-type", "`page-size` takes a whole number, got true", None),
        ({"page-size": 1.5}, "flag-type", "`page-size` takes a whole number, got the number 1.5", None),
        ({"page-size": [64]}, "flag-type", "`page-size` takes a whole number, got a list", None),
        (
            {"trust-remote-code": "yes"},
            "flag-type",
            '`trust-remote-code` takes true or false, got the text "yes"',
            None,
        ),
        (
            {"mem-fraction-static": float("nan")},
            "flag-type",
            "`mem-fraction-static` takes a number above 0 and at most 1, got the number nan",
            None,
        ),
        (
            {"chat-template": 5},
            "flag-type",
            "`chat-template` takes a text, got the number 5",
            "put the value in quotes",
        ),
        (
            {"context-length": "4 k"},
            "flag-type",
            '`context-length` takes a whole number or one with a unit (4k = 4000, 4K = 4096), got the text "4 k"',
            None,
        ),
        (
            {"numa-node": []},
            "flag-type",
            "`numa-node` takes at least one value, got an empty list",
            None,
        ),
        (
            {"preferred-sampling-params": "x"},
            "flag-type",
            '`preferred-sampling-params` takes a mapping or a list, got the text "x"',
            None,
        ),
        (
            {"attention-backend": "torch_nativ"},
            "flag-choice",
            '`attention-backend` does not know the text "torch_nativ"',
            "did you mean `torch_native`?",
        ),
        (
            {"tokenizer-mode": "warp"},
            "flag-choice",
            '`tokenizer-mode` does not know the text "warp"',
            "one of: auto, slow",
        ),
        (
            {"pagesize": 64},
            "flag-unknown",
            "engine 0.5.23 has no flag `pagesize`",
            "did you mean `page-size`?",
        ),
        (
            {"zzz": 64},
            "flag-unknown",
            "engine 0.5.23 has no flag `zzz`",
            "`sglang.launch_server --help` on a node lists its flags",
        ),
        (
            {"dist": "x"},
            "flag-ambiguous",
            "`dist` is short for 2 flags of engine 0.5.23",
            "write one of them in full: dist-timeout, dist-init-addr",
        ),
        (
            {"page-size": 64, "page_size": 32},
            "flag-twice",
            "`page_size` and `page-size` are the same flag (`page-size`)",
            "keep one of the two, as `page-size`",
        ),
        (
            {"dllm-fdfo": True, "no-dllm-fdfo": True},
            "flag-twice",
            "`no-dllm-fdfo` and `dllm-fdfo` are the same flag (`dllm-fdfo`)",
            "keep one of the two, as `dllm-fdfo`",
        ),
        (
            {"page-size": Secret("X")},
            "flag-secret",
            "`page-size` takes a whole number and cannot hold a secret",
            None,
        ),
        (
            {"preferred-sampling-params": {"a": Secret("X")}},
            "flag-type",
            (
                "`preferred-sampling-params` holds a value that JSON cannot carry; "
                "secrets go into text flags, as the whole value"
            ),
            None,
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_next_step(
    stock: Catalogue, flags: dict[str, Any], code: str, message: str, hint: str | None
) -> None:
    problem = only(stock, flags)
    assert (problem.code, problem.message, problem.hint) == (code, message, hint)
    assert problem.path == (*PATH, list(flags)[-1])


def test_an_item_of_a_list_is_pointed_at(stock: Catalogue) -> None:
    problem = only(stock, {"cuda-graph-bs-decode": [1, "two", 4]})
    assert problem.path == (*PATH, "cuda-graph-bs-decode", 1)
    problem = only(stock, {"log-requests-target": ["-x"]})
    assert "would read it as a flag" in problem.message


def test_all_problems_come_at_once_and_the_good_flags_stay(stock: Catalogue) -> None:
    values, problems = stock.check({"zzz": 1, "page-size": "x", "tp": 8}, PATH)
    assert values == {"tp-size": 8}
    assert [problem.code for problem in problems] == ["flag-unknown", "flag-type"]


def test_a_secret_is_kept_for_text_flags_and_never_written(stock: Catalogue) -> None:
    values, problems = stock.check({"api-key": Secret("KEY")}, PATH)
    assert problems == ()
    with pytest.raises(TypeError, match="cannot stand on a command line"):
        stock.argv(values)


def test_json_words_are_json(stock: Catalogue) -> None:
    value = {"quote": 'a "b"', "ünïcode": ["$x", None, True]}
    assert json.loads(words(stock, {"default-chat-template-kwargs": value})[1]) == value
