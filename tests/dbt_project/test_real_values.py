"""Every family on a real extraction: two checkpoints, two tokenizers and an intervention."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from expected import EXPECTED, assert_agrees
from metric_oracle import Oracle
from real_subset import MODELS, OPTIONS, write_subset

from extract.cli import extract

# the first one may have to download and convert the checkpoints
pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

GRIDS = ("--vars", "{grids: true}")
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
    """The extraction, built; in the variants each checkpoint evaluates the other one."""
    warehouse = Warehouse(extracted, extracted.parent / "tokenmart.duckdb")
    warehouse = warehouse.with_own_project(extracted.parent)
    added = [
        {"variant": f"smollm2_alpha_{alpha}", "alpha": alpha, "aggregation": aggregation}
        for alpha, aggregation in (("0.1", "weighted"), ("0.5", "micro"), ("1", "macro"))
    ]
    same = {"metric": "longppl_external", "evaluator": MODELS[0], "beta": "-2", "min_tokens": "1"}
    variants = warehouse.project / "variants" / "longppl_external.csv"
    with variants.open("a+", encoding="utf-8") as file:
        file.seek(0)
        names = csv.DictReader(file).fieldnames or []
        csv.DictWriter(file, names, lineterminator="\n").writerows({**same, **row} for row in added)
    warehouse.run(*GRIDS)
    return warehouse


@pytest.fixture(scope="module")
def oracle(real: Warehouse) -> Oracle:
    return Oracle(real.data, real.project / "variants", "minilong")


# families of probes that would cost as much again; they have an oracle on made-up data
UNASKED = {
    "choice_divergence",
    "ladder_gain",
    "ladder_reach",
    "needle_nll",
    "needle_recall",
    "needle_slope",
    "retrieval_distance",
    "retrieval_lookup",
    "retrieval_order",
}


@pytest.mark.parametrize("metric", sorted(EXPECTED.keys() - UNASKED))
def test_values_agree(real: Warehouse, oracle: Oracle, metric: str) -> None:
    assert_agrees(real.values(metric), EXPECTED[metric](oracle))


def test_each_tokenizer_evaluates_the_other(real: Warehouse, oracle: Oracle) -> None:
    smollm2, gemma3 = (
        set(real.rows(f"select distinct token_id from tokens where model_id = '{model}'"))
        for model in MODELS[:2]
    )
    assert smollm2 != gemma3
    assert oracle.largest == "gemma3-270m"
    values = real.values("longppl_external")
    for variant in ("smollm2_alpha_0.5", "largest_alpha_0.5_beta_-2"):
        assert all(values[f"{variant}@window_256", model] is not None for model in MODELS), variant


def test_pieces_of_one_character_occur(real: Warehouse) -> None:
    """What LongPPL treats apart is there: the comparison covers it."""
    assert real.rows("select count(*) > 0 from intermediate.int_token_overlaps") == [(True,)]
