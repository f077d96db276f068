"""Families of the probes that cost more, on a real extraction: the same models, short documents."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from expected import EXPECTED, assert_agrees
from metric_oracle import SETTINGS, Oracle
from real_subset import write_subset

from extract.cli import extract

# the first one may have to download and convert the checkpoints
pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

PROBES = [
    {"kind": "full"},
    {"kind": "ladder", "contexts": [32, 64, 128, 256], "targets": 64, "spans": 1},
    {"kind": "copy", "lengths": [32, 128], "passages": 2},
    {"kind": "copy", "name": "copy_random", "lengths": [32, 128], "order": "random"},
    {"kind": "halves", "lengths": [64, 256]},
    {"kind": "far", "near": 64, "targets": 256},
]
COMPARE = (("full", "far_shuffled"), ("full", "far_foreign"))
DOCUMENTS = (11, 16)
MODELS = ("smollm2-135m", "gemma3-270m")
OPTIONS = [
    *("--device", "cpu", "--dtype", "float32", "--max-tokens", "640"),
    *(word for model in MODELS for word in ("--model", model)),
]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Extracted by `tokenmart extract`, built with all variants."""
    folder = tmp_path_factory.mktemp("probes")
    path = write_subset(folder, DOCUMENTS, PROBES, COMPARE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_DATA", str(folder / "data"))
        done = CliRunner().invoke(extract, ["--problem", str(path), *OPTIONS])
    assert done.exit_code == 0, done.output
    warehouse = Warehouse(folder / "data", folder / "tokenmart.duckdb")
    warehouse.run("--vars", "{grids: true}")
    return warehouse


@pytest.mark.parametrize(
    "metric",
    [
        "context_gain",
        "entropy_resolved",
        "forgetting_curve",
        "induction_gain",
        "ladder_gain",
        "ladder_power",
        "ladder_reach",
        "mutual_information",
        "rare_word_gain",
    ],
)
def test_values_agree(real, metric):
    oracle = Oracle(real.data, SETTINGS, "minilong")
    assert_agrees(real.values(metric), EXPECTED[metric](oracle))


def test_real_models_copy_and_use_distant_text(real):
    """What the probes ask for has the sign that it must have in any language model."""
    for metric, variant in (
        ("forgetting_curve", "gain@copy"),
        ("forgetting_curve", "gain@copy_random"),
        ("mutual_information", "longest@halves"),
        ("context_gain", "mean@far_foreign"),
    ):
        values = real.values(metric)
        for model in MODELS:
            value = values[variant, model]
            assert value is not None and value > 0, (metric, model)
