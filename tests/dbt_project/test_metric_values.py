"""Every family's values against the plain numpy implementations of `expected_*.py`."""

from __future__ import annotations

import math

import pytest
from dbt_harness import Warehouse
from expected import EXPECTED, assert_agrees
from metric_oracle import SETTINGS, Oracle, combine


@pytest.fixture(scope="module")
def oracle(built: Warehouse) -> Oracle:
    return Oracle(built.data, SETTINGS)


@pytest.fixture(scope="module")
def values(built: Warehouse) -> dict[str, dict[tuple[str, str], float | None]]:
    """Metric → (variant, model) → value."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    for metric, *key, value in built.rows(
        "select metric, variant, model_id, value from metric_values"
    ):
        found.setdefault(metric, {})[tuple(key)] = value
    return found


def test_every_metric_has_an_oracle(built):
    assert set(built.rows("select distinct metric from metric_catalog")) == {
        (metric,) for metric in EXPECTED
    }


@pytest.mark.parametrize("metric", sorted(EXPECTED))
def test_values_agree(values, oracle, metric):
    assert_agrees(values.get(metric, {}), EXPECTED[metric](oracle))


def test_the_minimum_count_is_met_and_missed(built):
    found = built.values("longppl").values()
    assert None in found
    assert any(value is not None for value in found)


@pytest.mark.parametrize(
    ("metric", "variant", "aggregation"),
    [
        ("perplexity", "micro", "micro"),
        ("perplexity", "macro", "macro"),
        ("context_gain", "median_document@window_64", "median"),
        ("longppl", "alpha_0.5_beta_-2_by_length@window_64", "weighted"),
    ],
)
def test_groups_combine_their_documents_as_all_documents_are(built, metric, variant, aggregation):
    """Documents 0 and 3 are prose, 1 is code, 2 has no group."""
    chosen = f"metric = '{metric}' and variant = '{variant}'"
    parts: dict[tuple[str, int], tuple[float, float, float]] = {
        (model, doc): (numerator, denominator, weight)
        for model, doc, numerator, denominator, weight in built.rows(
            "select model_id, doc_id, numerator, denominator, weight from metric_documents "
            f"where {chosen}"
        )
    }
    found = {
        (model, group): value
        for model, group, value in built.rows(
            f"select model_id, document_group, value from metric_groups where {chosen}"
        )
        if value is not None
    }
    assert {group for _, group in found} == {"prose", "code"}
    for (model, group), value in found.items():
        mine = [
            parts[model, d] for d in {"prose": (0, 3), "code": (1,)}[group] if (model, d) in parts
        ]
        tops, bottoms, weights = (list(column) for column in zip(*mine, strict=True))
        expected = combine(aggregation, tops, bottoms, weights)
        assert value == pytest.approx(
            expected if metric == "context_gain" else math.exp(expected), rel=1e-9
        )
