"""Partial data, changed data, other thread counts: the library bends, it doesn't break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dbt_harness import (
    NO_UNIT_TESTS,
    Warehouse,
    assert_same_values,
)
from made_up_warehouse import VOCABULARY, Shape, Window

from warehouse.store.ledger import read_units, with_units
from warehouse.store.schema import TOKENS

pytestmark = pytest.mark.slow

SMALL = Shape(models=3, documents=2, tokens=400, windows=(Window(64, 32),))


def files(warehouse: Warehouse, table: str, model: str) -> Path:
    return warehouse.data / table / "problem=synthetic" / f"model_id={model}"


def test_an_empty_warehouse_builds(tmp_path):
    warehouse = Warehouse(tmp_path / "data", tmp_path / "tokenmart.duckdb")
    done = warehouse.dbt("build", "--quiet", "--vars", '{"grids": true}', *NO_UNIT_TESTS)
    assert done.returncode == 0, done.stdout
    assert warehouse.rows("select count(*) from metric_values") == [(0,)]
    assert warehouse.rows("select count(*) from tokens") == [(0,)]
    assert warehouse.rows("select count(*) >= 300 from metric_catalog where is_admissible") == [
        (True,)
    ]


def test_what_is_missing_or_failed_is_reported_and_leaves_the_rest(new_warehouse):
    skip = frozenset(
        {
            ("lab--model-0", "window_64", None),
            ("lab--model-1", "retrieval_without", None),
            ("lab--model-2", "full", 1),
        }
    )
    warehouse = new_warehouse(replace(SMALL, models=4, skip=skip, downstream_items=0))
    lose_document(files(warehouse, "tokens", "lab--model-3") / "condition=full" / "tokens.parquet")
    warehouse.run()
    found = {
        (metric, model)
        for metric, model in warehouse.rows(
            "select distinct metric, model_id from metric_values where value is not null"
        )
    }
    assert ("perplexity", "lab--model-0") in found
    assert ("context_gain", "lab--model-0") not in found
    assert ("retrieval_gain", "lab--model-1") not in found
    assert ("context_gain", "lab--model-1") in found
    reasons = dict(
        warehouse.rows(
            "select (metric, model_id), any_value(reason) from metric_values "
            "where value is null group by all"
        )
    )
    assert reasons["context_gain", "lab--model-0"] == "condition window_64 not extracted"
    assert reasons["retrieval_gain", "lab--model-1"] == "condition retrieval_without not extracted"
    known = warehouse.rows(
        "select count(distinct (metric, variant)) from metric_catalog where not regexp_matches("
        "metric, '^(ladder|needle)_|^retrieval_(distance|lookup|order)$|"
        "^(choice_divergence|divergence|forgetting_curve|mutual_information|same_top)$') "
        "and not starts_with(variant, 'published')"  # needs imported key text
    )
    rows = warehouse.rows("select model_id, count(*) from metric_values group by all")
    assert [count for _, count in rows] == [known[0][0]] * 4
    documents = warehouse.rows(
        "select documents from metric_values where metric = 'context_gain' "
        "and variant = 'mean@window_64' and model_id = 'lab--model-2'"
    )
    assert documents == [(1,)]
    coverage = dict(warehouse.rows("select (model_id, condition), documents_missing from coverage"))
    assert coverage["lab--model-0", "window_64"] == 2
    assert coverage["lab--model-2", "full"] == 1
    assert coverage["lab--model-1", "full"] == 0
    assert warehouse.rows(
        "select documents_done, documents_failed, documents_missing, failure from coverage "
        "where model_id = 'lab--model-3' and condition = 'full'"
    ) == [(1, 1, 0, "out of memory")]
    assert warehouse.rows(
        "select distinct documents from metric_values "
        "where model_id = 'lab--model-3' and metric = 'perplexity'"
    ) == [(1,)]


def lose_document(path: Path) -> None:
    """Have the second document's unit fail, without rows."""
    table = pq.ParquetFile(path).read()
    done, lost = read_units(path)
    lost = replace(lost, status="failed", reason="out of memory", rows=0, content_sha256="")
    kept = table.filter(table["doc_id"].to_numpy() == 0)
    pq.write_table(kept.cast(with_units(TOKENS, [done, lost])), path)


def test_numbers_of_a_token_that_contradict_each_other_are_counted(new_warehouse):
    """Those of made-up rows, which are drawn one by one, against the limits in NumPy."""
    warehouse = new_warehouse(replace(SMALL, windows=()))
    warehouse.run("--select", "+fct_tokens")
    columns = ("logprob", "rank", "top_logprob", "entropy")
    rows = warehouse.rows(f"select {', '.join(columns)} from tokens where condition = 'full'")
    logprob, rank, top, entropy = np.array(rows, dtype=np.float64).T
    p, largest, slack = np.exp(logprob), np.exp(top), 1.001
    wrong = (rank * p > slack) | (entropy < -top - 0.01) | (entropy > np.log(VOCABULARY) + 0.01)
    wrong |= np.where(rank == 1, np.abs(top - logprob) > 0.001, largest + (rank - 1) * p > slack)
    wrong |= rank > VOCABULARY
    assert 100 < wrong.sum() < len(rows) and (entropy > np.log(VOCABULARY) + 0.01).any()
    done = warehouse.dbt("test", "--select", "token_numbers_do_not_contradict")
    assert done.returncode == 0 and f" WARN {wrong.sum()} token_numbers" in done.stdout, done.stdout


def test_thread_count_changes_nothing(new_warehouse, tmp_path):
    """Documents that threads share: each spans row groups of the token files and of the pairs."""
    warehouse = new_warehouse(Shape(models=1, documents=2, tokens=70_000, retrieval=None))
    one, four = (warehouse.with_threads(n, tmp_path / str(n)) for n in (1, 4))
    assert_same_values(one, four)


def test_values_keep_ten_digits_so_that_equal_models_tie(built):
    values = built.rows(
        "select any_value(kept.value), sum(made_of.numerator) / sum(made_of.denominator) "
        "from metric_values as kept "
        "inner join metric_documents as made_of using (problem, metric, variant, model_id) "
        "where metric = 'context_gain' and starts_with(variant, 'mean@') "
        "group by problem, metric, variant, model_id"
    )
    assert [kept for kept, _ in values] == [float(f"{computed:.9e}") for _, computed in values]
    assert any(kept != computed for kept, computed in values)
