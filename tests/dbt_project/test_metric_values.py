"""Every family's values against the plain numpy implementations of `expected_*.py`."""

from __future__ import annotations

import pytest
from dbt_harness import Warehouse
from expected import EXPECTED, assert_agrees
from metric_oracle import SETTINGS, Oracle


@pytest.fixture(scope="module")
def oracle(built: Warehouse) -> Oracle:
    return Oracle(built.data, SETTINGS)


def test_every_metric_has_an_oracle(built: Warehouse) -> None:
    assert set(built.rows("select distinct metric from metric_catalog")) == {
        (metric,) for metric in EXPECTED
    }


@pytest.mark.parametrize("metric", sorted(EXPECTED))
def test_values_agree(built: Warehouse, oracle: Oracle, metric: str) -> None:
    assert_agrees(built.values(metric), EXPECTED[metric](oracle))


def test_the_minimum_count_is_met_and_missed(built: Warehouse) -> None:
    found = built.values("longppl").values()
    assert None in found
    assert any(value is not None for value in found)


def test_the_evaluator_has_another_tokenizer_than_some_models(
    built: Warehouse, oracle: Oracle
) -> None:
    tokenizers = dict(built.rows("select model_id, tokenizer_sha256 from models"))
    assert oracle.largest in tokenizers
    assert len(set(tokenizers.values())) > 1
