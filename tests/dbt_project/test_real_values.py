"""Every family on a real extraction: two checkpoints, two tokenizers and an intervention."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from expected import EXPECTED, assert_agrees
from metric_oracle import SETTINGS, Oracle
from real_subset import MODELS, OPTIONS, write_subset

from extract.cli import extract
from tokenmart import cli

# the first one may have to download and convert the checkpoints
pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

DOCUMENTS = (11, 16)  # a character in several pieces, long dashes and curly quotes


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder filled by `tokenmart extract`, from minilong's models and documents."""
    folder = tmp_path_factory.mktemp("real")
    path = write_subset(folder, DOCUMENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_DATA", str(folder / "data"))
        done = CliRunner().invoke(extract, ["--problem", str(path), *OPTIONS])
    assert done.exit_code == 0, done.output
    return folder / "data"


@pytest.fixture(scope="module")
def real(extracted: Path) -> Warehouse:
    """The extraction, built with all variants."""
    warehouse = Warehouse(extracted, extracted.parent / "tokenmart.duckdb")
    warehouse.run("--vars", "{grids: true}")
    return warehouse


@pytest.fixture(scope="module")
def oracle(real: Warehouse) -> Oracle:
    return Oracle(real.data, SETTINGS, "minilong")


# families of probes that would cost as much again; they have an oracle on made-up data
UNASKED = {
    "choice_divergence",
    "forgetting_curve",
    "ladder_gain",
    "ladder_power",
    "ladder_reach",
    "mutual_information",
    "needle_nll",
    "needle_recall",
    "needle_slope",
    "retrieval_distance",
    "retrieval_lookup",
    "retrieval_order",
    "divergence",
    "same_top",
}


@pytest.mark.parametrize("metric", sorted(EXPECTED.keys() - UNASKED))
def test_values_agree(real, oracle, metric):
    assert_agrees(real.values(metric), EXPECTED[metric](oracle))


def test_another_evaluator(real, oracle, tmp_path):
    """Each tokenizer finds key tokens for the other one."""
    smollm2, gemma3 = (
        set(real.rows(f"select distinct token_id from tokens where model_id = '{model}'"))
        for model in MODELS[:2]
    )
    assert smollm2 != gemma3
    assert oracle.largest == "gemma3-270m"
    other = Warehouse(real.data, tmp_path / "tokenmart.duckdb")
    other.run("--vars", f"{{grids: true, evaluator: {MODELS[0]}}}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "largest", MODELS[0])
        assert_agrees(other.values("longppl_external"), EXPECTED["longppl_external"](oracle))
    for built in (real, other):
        values = built.values("longppl_external")
        variant = "largest_alpha_0.5_beta_-2@window_256"
        assert all(values[variant, model] is not None for model in MODELS)


def test_exported_key_text_comes_back_as_the_same_longppl(real, tmp_path):
    """The evaluator's key text, exported with the cookbook and imported under another name."""
    shutil.copytree(real.data, tmp_path / "data", symlinks=True)
    copy = Warehouse(tmp_path / "data", tmp_path / "tokenmart.duckdb")
    out = tmp_path / "intervals.csv"
    query = ["sql", "--name", "key_intervals", "--out", str(out), "--param", "alpha=0.5"]
    query += [word for pair in ("problem=minilong", "model=gemma3-270m", "short=window_256")
              for word in ("--param", pair)]  # fmt: skip
    path = str(real.data.parent / "minilong.yml")
    brought = ["data", "import", "--problem", path, "--model", "elsewhere", "--format"]
    with copy.as_workspace():
        for command in (query, [*brought, "key-intervals", str(out)]):
            done = CliRunner().invoke(cli, command)
            assert done.exit_code == 0, done.output
    copy.run("--vars", "{grids: true}", "--select", "+metric_values")
    values = copy.values("longppl_external")
    for model in MODELS:
        for ending in ("", "_by_length"):
            own = values[f"largest_alpha_0.5_beta_-2{ending}@window_256", model]
            assert own is not None and values[f"published{ending}@elsewhere", model] == own


def test_pieces_of_one_character_occur(real):
    """What LongPPL treats apart is there: the comparison covers it."""
    assert real.rows("select bool_or(shares_character) from token_features") == [(True,)]
