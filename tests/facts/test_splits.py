"""A split of weights in the model folder: told where it does not fit, quiet where it does or is none."""

from __future__ import annotations

from typing import Any

import pytest

from sgdeploy.facts.model import Finding, PathFact
from sgdeploy.facts.parse import parse
from sgdeploy.facts.wanted import gather_request
from sgdeploy.plan.model import Process
from sgdeploy.weights.cut.manifest import HEAD, Head, RankFile
from tests.facts.build import a_host, a_plan, a_process, findings, fitting, folder

RULES = {
    "lm_head": "global",
    "dense_mlp": "global",
    "shared_experts": "global",
    "attention": "attention",
    "mtp_lm_head": "global",
}
FITS = Head(
    plan="sha256:0",
    scheme="upstream",
    layout="sharded_state",
    tp=8,
    dp=2,
    ep=8,
    pp=1,
    rules=RULES,
    ranks="0-7",
    files=3,
    size=100,
    digest="0",
)
HERE = "--model-path /split --tp-size 8 --dp-size 2 --ep-size 8 --enable-dp-attention --load-format sharded_state"
AGAIN = "split again for this deployment: sgdeploy split-weights --profile (docs/split-weights.md)"


def rank(words: str, host: str = "n01", node_rank: int = 0) -> Process:
    argv = ("python", "-m", "sglang.launch_server", *words.split())
    return a_process(host, rank=0, argv=argv, node_rank=node_rank, id=f"demo/native/{host}")


def found(head: Head | str | None, words: str = HERE, path: str = "/split", nodes: int = 1) -> list[Finding]:
    """Run preflight over the last of some hosts whose model folder holds a split."""
    names = [f"n{number + 1:02d}" for number in range(nodes)]
    plan = a_plan(*(rank(words, name, number) for number, name in enumerate(names)), hosts=tuple(map(a_host, names)))
    paths = {**fitting().paths, path: folder(), "/split/mtp": folder()}
    splits = {} if head is None else {path: head}
    facts = fitting(names[-1], paths=paths, splits=splits)
    return [finding for finding in findings(plan, facts) if finding.code.startswith("split-")]


def changed(**values: Any) -> Head:
    return FITS.model_copy(update=values)


def test_no_split_and_one_that_fits_say_nothing() -> None:
    assert found(None) == []
    assert found(FITS) == []
    assert found(FITS, nodes=2) == []
    assert found(FITS, HERE.replace("/split", "/split/")) == []
    assert found(changed(rules={**RULES, "lm_head": "attention"}), f"{HERE} --enable-dp-lm-head") == []


@pytest.mark.parametrize(
    ("head", "words", "message"),
    [
        (changed(tp=16), HERE, "the split in /split is for tp 16, here 8"),
        (
            changed(tp=4, dp=1, ep=4),
            HERE,
            "the split in /split is for tp 4, here 8; attention groups (dp) 1, here 2; ep 4, here 8",
        ),
        (
            FITS,
            HERE.replace("--enable-dp-attention", ""),
            "the split in /split is for attention groups (dp) 2, here 1",
        ),
        (changed(redundant_experts=8), HERE, "the split in /split is for redundant experts 8, here 0"),
        (
            FITS,
            HERE.replace("--load-format sharded_state", ""),
            "/split holds a split (sharded_state), and the engine loads it with load-format auto",
        ),
        (
            changed(layout="kunpeng_state"),
            HERE,
            "/split holds a split (kunpeng_state), and the engine loads it with load-format sharded_state",
        ),
        (
            FITS,
            f"{HERE} --enable-dp-lm-head",
            "lm_head in /split: TP 8 there, the engine's flags ask for attention TP 4",
        ),
    ],
)
def test_a_split_for_something_else(head: Head, words: str, message: str) -> None:
    assert [(it.code, it.level, it.message, it.hint) for it in found(head, words)] == [
        ("split-unfit", "error", message, AGAIN)
    ]


def test_a_host_whose_ranks_have_no_files() -> None:
    (finding,) = found(changed(ranks="0-3"), nodes=2)
    assert (finding.code, finding.level) == ("split-ranks", "error")
    assert finding.message == "the split in /split has files of ranks 0-3; this host also runs 4-7"
    assert found(changed(ranks="4-7"), nodes=2) == []


def test_the_draft_model_has_a_folder_of_its_own() -> None:
    words = f"{HERE} --speculative-draft-model-path /split/mtp"
    assert found(changed(folder="mtp"), words, "/split/mtp") == []
    (finding,) = found(FITS, words, "/split/mtp")
    assert finding.message == "/split/mtp is the top of a split; the draft model of this host is in mtp"


def test_another_part_of_the_split_than_the_one_that_is_needed() -> None:
    """Pipeline stages and the draft model have folders of their own; the hint names the right one."""
    two = f"{HERE} --pp-size 2"
    (finding,) = found(changed(folder="mtp"), HERE.replace("/split", "/split/mtp"), "/split/mtp")
    assert (finding.code, finding.level) == ("split-folder", "error")
    assert finding.message == "/split/mtp is mtp of a split; the model of this host is in the top"
    assert finding.hint == "set `model.path` (or `model_path` of the instance) to /split"
    (finding,) = found(changed(pp=2, ranks="0-15"), two)
    assert finding.message == "/split is the top of a split; the model of this host is in pp0 and pp1"
    assert finding.hint == "set `model.path` (or `model_path` of the instance) to /split/pp{stage}"
    assert [it.code for it in found(changed(pp=2, folder="pp0", ranks="0-15"), two)] == ["split-folder"]
    at_1 = two.replace("/split", "/split/pp1")
    assert found(changed(pp=2, folder="pp1", ranks="0-15"), at_1, "/split/pp1", nodes=2) == []
    (finding,) = found(changed(pp=2, folder="pp0", ranks="0-15"), two, nodes=2)
    assert finding.message == "/split is pp0 of a split; the model of this host is in pp1"


def test_stages_side_by_side_on_a_host_have_a_folder_each() -> None:
    """With one process per rank a host may hold several stages; each is held against its own folder."""
    words = HERE.replace("tp-size 8", "tp-size 1").replace("dp-size 2", "dp-size 1").replace("ep-size 8", "ep-size 1")
    argv = ("python", "-m", "sglang.launch_server", *f"{words} --pp-size 2".split())
    ranks = [
        a_process(
            rank=number,
            rank_in_node=number,
            node_rank=0,
            argv=tuple(word.replace("/split", f"/split/pp{number}") for word in argv),
        )
        for number in range(2)
    ]
    one = changed(tp=1, dp=1, ep=1, pp=2, ranks="0-1", rules={})
    paths = {**fitting().paths, "/split/pp0": folder(), "/split/pp1": folder()}

    def codes(**folders: str) -> list[str]:
        splits = {f"/split/{path}": one.model_copy(update={"folder": name}) for path, name in folders.items()}
        facts = fitting(paths=paths, splits=splits)
        return [it.code for it in findings(a_plan(*ranks), facts) if it.code.startswith("split-")]

    assert codes(pp0="pp0", pp1="pp1") == []
    assert codes(pp0="pp1", pp1="pp0") == ["split-folder"]


FILE = RankFile(name="model-rank-{rank}-part-0.safetensors", count=8, size=100)


def with_files(*, gone: tuple[int, ...] = (), short: tuple[int, ...] = ()) -> list[Finding]:
    """Run preflight over the second of two hosts; some files of its ranks are gone or cut short."""
    plan = a_plan(*(rank(HERE, f"n0{n + 1}", n) for n in range(2)), hosts=(a_host("n01"), a_host("n02")))
    asked = gather_request(plan, plan.hosts[1])["stat"]
    names = {number: f"/split/{FILE.name.format(rank=number)}" for number in range(4, 8)}
    assert set(names.values()) < set(asked)
    assert f"/split/{FILE.name.format(rank=3)}" not in asked
    sizes = {number: 40 if number in short else FILE.size for number in names}
    files = {names[n]: PathFact(exists=n not in gone, kind="file", size=size) for n, size in sizes.items()}
    facts = fitting("n02", paths={**fitting().paths, "/split": folder(), **files}, splits={"/split": WITH_FILES})
    return [finding for finding in findings(plan, facts) if finding.code.startswith("split-")]


WITH_FILES = FITS.model_copy(update={"rank_files": (FILE,)})


def test_files_that_are_gone_or_cut_short() -> None:
    """The manifest says how large the files of every rank are; those of this host's ranks are looked at."""
    assert with_files() == []
    (finding,) = with_files(gone=(4,))
    assert (finding.code, finding.level) == ("split-files", "error")
    assert finding.message == "/split/model-rank-4-part-0.safetensors is missing"
    assert "split-weights verify" in str(finding.hint)
    (finding,) = with_files(gone=(4, 6), short=(5, 7))
    assert finding.message == (
        "/split/model-rank-4-part-0.safetensors is missing (2 files); "
        "/split/model-rank-5-part-0.safetensors has 40 bytes, its manifest says 100 (2 such files)"
    )


def test_a_manifest_that_cannot_be_read() -> None:
    (finding,) = found("tp: Field required")
    assert (finding.code, finding.level) == ("split-damaged", "error")
    assert finding.message == f"/split/{HEAD} is damaged: tp: Field required"


def test_what_only_a_real_runtime_knows_is_a_doubt() -> None:
    (finding,) = found(changed(rules={**RULES, "shared_experts": "whole"}))
    assert (finding.code, finding.level) == ("split-doubtful", "warning")
    assert finding.message == "shared_experts in /split: whole there, the engine's flags ask for TP 8"


def test_the_simulated_engine_loads_nothing() -> None:
    process = a_process(argv=("python3", "engine.py", *HERE.split()), in_run_dir=(1,))
    plan = a_plan(process)
    assert not any(HEAD in path for path in gather_request(plan, plan.hosts[0])["files"])
    assert findings(plan, fitting(splits={"/split": changed(tp=16)})) == []


def test_the_head_travels_from_the_host() -> None:
    plan = a_plan(rank(HERE))
    assert f"/split/{HEAD}" in gather_request(plan, plan.hosts[0])["files"]
    facts = parse("n01", {}, {"files": {f"/split/{HEAD}": FITS.model_dump_json(), f"/other/{HEAD}": "{}"}})
    assert facts.splits["/split"] == FITS
    assert isinstance(facts.splits["/other"], str)
