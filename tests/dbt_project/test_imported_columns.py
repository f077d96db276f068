"""Log-probs imported without a column: which metrics read it is found by changing its values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt_harness import SHAPE, NewWarehouse

from warehouse.store.ledger import read_units, with_units
from warehouse.store.schema import TOKENS

pytestmark = pytest.mark.slow

SIDES = ("full", "window_64", "retrieval_with", "retrieval_without", "other")
CHANGED = {
    "rank": (1, 8, 9),
    "top_logprob": (-0.01, -1.0),
    "entropy": (2.5, 0.5),
    "varentropy": (3.0, 1.0),
}
"""Column → values put in place of all others; a rank, of a random half, the others are 1."""

CASES = [(side, column) for side in SIDES for column in CHANGED]
READ = {
    ("full", "rank"): {
        "calibration_error", "confident_mistakes", "min_context", "rank", "rank_gain",
    },
    ("full", "top_logprob"): {
        "calibration_error", "confident_mistakes", "entropy", "min_context",
    },
    ("full", "entropy"): {"entropy", "entropy_drop", "entropy_resolved", "min_k_plus_plus"},
    ("full", "varentropy"): {"min_k_plus_plus"},
    ("window_64", "rank"): {"min_context", "rank_gain"},
    ("window_64", "entropy"): {"entropy_drop", "entropy_resolved"},
    ("retrieval_with", "rank"): {
        "retrieval_distance", "retrieval_gain", "retrieval_lookup", "retrieval_order",
        "retrieval_recall",
    },
    ("retrieval_without", "rank"): {"retrieval_gain", "retrieval_recall"},
    ("other", "rank"): {
        "forgetting_curve", "needle_recall", "needle_slope", "retrieval_distance",
        "retrieval_lookup", "retrieval_order",
    },
}  # fmt: skip
"""Families with a variant that reads a column of a side; of the others none does."""

SMALL = replace(
    SHAPE, documents=2, windows=SHAPE.windows[:1], top_k=0, divergence=False, compare=(),
    downstream_items=0, models=1, model_ids=("whole",),
)  # fmt: skip


def name(side: str, column: str, value: float | None) -> str:
    return f"{side}-{column}-{value}"


def write_as(data: Path, model: str, side: str, column: str, value: float | None) -> None:
    """The files of the whole model as another's, one column of a side replaced by a value."""
    for path in sorted(data.glob("*/problem=*/model_id=whole/**/*.parquet")):
        table = pq.ParquetFile(path).read()
        if "tokens" in path.relative_to(data).parts:
            condition = path.parent.name.removeprefix("condition=")
            units = [replace(unit, model_id=model) for unit in read_units(path)]
            if condition == side or (side == "other" and condition not in SIDES):
                at = TOKENS.get_field_index(column)
                values = [value] * len(table)
                if column == "rank" and value:
                    values = np.random.default_rng(value).choice([1, value], len(table)).tolist()
                table = table.set_column(at, column, pa.array(values, TOKENS.field(at).type))
            table = table.cast(with_units(TOKENS, units))
        else:
            at = table.schema.get_field_index("full_id")
            table = table.set_column(at, "full_id", [[model]])
        own = Path(str(path).replace("model_id=whole", f"model_id={model}"))
        own.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, own)


@pytest.fixture(scope="module")
def values(new_warehouse: NewWarehouse) -> dict[str, dict[tuple[str, str], float | None]]:
    """Model → (metric, variant) → value."""
    warehouse = new_warehouse(SMALL)
    for side, column in CASES:
        for value in (None, *CHANGED[column]):
            write_as(warehouse.data, name(side, column, value), side, column, value)
    warehouse.run("--vars", "{grids: true}", "--select", "+metric_values")
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    for model, metric, variant, value in warehouse.rows(
        "select model_id, metric, variant, value from metric_values"
    ):
        found.setdefault(model, {})[metric, variant] = value
    return found


@pytest.mark.parametrize(("side", "column"), CASES)
def test_a_metric_of_a_column_that_is_lacking_has_no_value(values, side, column):
    whole = {key: value for key, value in values["whole"].items() if value is not None}
    same = {key: pytest.approx(value, rel=1e-9, abs=1e-12) for key, value in whole.items()}
    changed = [values[name(side, column, value)] for value in CHANGED[column]]
    read = {key for key in whole if any(other[key] != same[key] for other in changed)}
    lacks = values[name(side, column, None)]
    assert {metric for metric, _ in read} == READ.get((side, column), set())
    assert {key for key in whole if lacks[key] is None} == read
    for key in whole.keys() - read:
        assert lacks[key] == same[key], key
