"""What the command writes is what the reference scripts and the runtime made: names, types, shapes and bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.weights.conftest import Call
from tests.weights.planning import DATA
from tests.weights.tiny import Prints, fingerprints, golden, make

SURPLUS = ".self_attn.q_a_proj.weight"
"""What A writes beside the fused parameter that holds it."""

MTP = ("--mtp", "inline", *(f"--class={name}=whole" for name in ("eh_proj", "mtp_embed_tokens", "mtp_lm_head")))
"""The older scripts leave the layer of multi-token prediction among the others, and these classes of it whole."""

DRAFT = "model.layers.4."
SOCKET = "--class=fused_qkv_a=socket:4"


@dataclass(frozen=True)
class Case:
    """A reference result: of which checkpoint, and the words that ask for the same."""

    variant: str
    words: tuple[str, ...]
    tp: int
    dp: int = 1
    scheme: str = "kunpeng"

    @property
    def all_words(self) -> tuple[str, ...]:
        """The words with scheme and sizes."""
        return ("--scheme", self.scheme, "--tp", str(self.tp), "--dp", str(self.dp), *self.words)


CASES = {
    "A_dsv3-tiny_g8_a4_lm1_mlp1": Case("dsv3-tiny", MTP, 8, 2),
    "A_dsv3-tiny_g8_a4_lm0_mlp1": Case("dsv3-tiny", (*MTP, "--class=lm_head=global"), 8, 2),
    "A_dsv3-tiny-e16_g16_a4_lm1_mlp1": Case("dsv3-tiny-e16", MTP, 16, 4),
    "A_dsv3-tiny-e16_g16_a4_lm0_mlp0": Case(
        "dsv3-tiny-e16", (*MTP, "--class=lm_head=global", "--class=dense_mlp=global"), 16, 4
    ),
    "A_dsv2-tiny_g8_a4_lm1_mlp1": Case("dsv2-tiny", (), 8, 2),
    "B_dsv3-tiny_g8_a8_lm1_mlp1": Case("dsv3-tiny", MTP, 8),
    "C_dsv3-tiny_g8_a8_lm1_mlp1_s4": Case("dsv3-tiny", (*MTP, SOCKET), 8),
    "D_dsv3-tiny_kunpeng_state_a8_s4": Case(
        "dsv3-tiny", ("--layout", "kunpeng_state", SOCKET), 8, scheme="kunpeng-socket"
    ),
    "U_dsv3-b_g4_a2_ep4_lm0": Case("dsv3-b", ("--ep", "4", "--mtp", "drop"), 4, 2, scheme="upstream"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write each checkpoint once."""
    base = tmp_path_factory.mktemp("golden")
    return {variant: make(variant, base / variant) for variant in {case.variant for case in CASES.values()}}


def reference(name: str) -> Prints:
    """Read a reference result without its known surplus."""
    return golden(DATA / f"{name}.json", SURPLUS if name.startswith("A_dsv3") else None)


def test_every_reference_result_has_a_case() -> None:
    assert {path.stem for path in DATA.glob("[A-Z]_*.json")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_files_are_those_of_the_reference(models: dict[str, Path], name: str, tmp_path: Path, call: Call) -> None:
    case, out = CASES[name], tmp_path / "out"
    found = call("--model", models[case.variant], "--out", out, *case.all_words)
    assert found.code == 0, found.err
    written, wanted = fingerprints(out), reference(name)
    assert written.keys() == wanted.keys()
    for file, tensors in wanted.items():
        assert written[file] == tensors, file
    assert sum(map(len, written.values())) > 100
    assert call("verify", out).code == 0


def test_the_surplus_of_the_first_script_is_nothing_else() -> None:
    with_it = golden(DATA / "A_dsv3-tiny_g8_a4_lm1_mlp1.json")
    without = golden(DATA / "A_dsv3-tiny_g8_a4_lm1_mlp1.json", SURPLUS)
    assert {len(with_it[file]) - len(without[file]) for file in with_it} == {5}


def manifest_of(name: str, path: Path) -> Path:
    """Write down what a runtime builds that takes a reference result, without the layer of multi-token prediction."""
    ranks = {
        f"pp0-tp{file.removeprefix('model-rank-')}": {
            tensor: form[:2] for tensor, form in tensors.items() if not tensor.startswith(DRAFT)
        }
        for file, tensors in reference(name).items()
    }
    path.write_text(json.dumps({"class": "DeepseekV3ForCausalLM", "params": ranks}))
    return path


SCHEMES = ("--tp", "8", "--mtp", "drop")
MINE = "a file of ones own"


@pytest.mark.parametrize(
    ("words", "runtimes", "message"),
    [
        (
            ("--scheme", "kunpeng", *SCHEMES, "--dp", "2"),
            ("A_dsv3-tiny_g8_a4_lm1_mlp1", "A_dsv3-tiny_g8_a4_lm0_mlp1"),
            "1 parameter differs, first lm_head.weight: plan BF16 [64, 64], runtime BF16 [32, 64]",
        ),
        (
            ("--scheme", "kunpeng-socket", *SCHEMES),
            ("B_dsv3-tiny_g8_a8_lm1_mlp1", "C_dsv3-tiny_g8_a8_lm1_mlp1_s4"),
            "8 parameters differ, first model.layers.0.self_attn.fused_qkv_a_proj_with_mqa.weight",
        ),
        (
            ("--scheme", MINE, *SCHEMES),
            ("C_dsv3-tiny_g8_a8_lm1_mlp1_s4", "B_dsv3-tiny_g8_a8_lm1_mlp1"),
            "8 parameters differ, first model.layers.0.self_attn.fused_qkv_a_proj_with_mqa.weight",
        ),
    ],
    ids=["kunpeng", "kunpeng-socket", "a file"],
)
def test_runtimes_of_the_fork_by_scheme(
    models: dict[str, Path], tmp_path: Path, call: Call, words: tuple[str, ...], runtimes: tuple[str, str], message: str
) -> None:
    """What its scripts write is all that is known of what it builds."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: kunpeng\nclasses: {fused_qkv_a: 'socket:4'}\n")
    fits, wrong = (manifest_of(name, tmp_path / f"{name}.json") for name in runtimes)
    plan = ("--model", models["dsv3-tiny"], "--plan", *(mine if word == MINE else word for word in words), "--expect")
    good = call(*plan, fits)
    assert good.code == 0, good.err
    bad = call(*plan, wrong)
    assert bad.code == 2
    assert message in bad.err
