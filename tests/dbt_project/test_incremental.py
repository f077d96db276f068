"""What a change makes dbt compute again: rows that stay keep their row ids."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from dbt_harness import NewWarehouse, Warehouse, add_variant, assert_same_values
from made_up_warehouse import Shape, Window, write_warehouse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHAPE = Shape(models=3, documents=2, tokens=700, windows=(Window(64, 32),), vocabulary=60)

KEYS = {
    "words": "corpus_id",
    "token_features": "tokenization_id",
    "fct_tokens": "unit_id",
}
"""The incremental tables, with what their rows are kept by."""

Rows = dict[object, frozenset[int]]
"""Row ids of an incremental table by key; what is written again has other row ids."""

LAST = "lab--model-1"
"""It has a tokenizer of its own and is not the evaluator."""


def incremental_rows(warehouse: Warehouse) -> dict[str, Rows]:
    built = {
        node["name"]
        for node in warehouse.manifest["nodes"].values()
        if node["resource_type"] == "model" and node["config"]["materialized"] == "incremental"
    }
    assert built == KEYS.keys(), "the two large tables, and the words of texts"
    return {
        table: {
            key: frozenset(rows)
            for key, rows in warehouse.rows(
                f"select {key}, list(rowid) from {table} group by {key}"
            )
        }
        for table, key in KEYS.items()
    }


def changes(before: Rows, after: Rows) -> tuple[int, int, int]:
    """Keys that are new, gone, and kept; the rows of kept ones are untouched."""
    kept = before.keys() & after.keys()
    assert all(before[key] == after[key] for key in kept)
    return len(after.keys() - kept), len(before.keys() - kept), len(kept)


def remove_last(warehouse: Warehouse) -> None:
    for table in ("tokens", "models", "downstream"):
        shutil.rmtree(warehouse.data / table / "problem=synthetic" / f"model_id={LAST}")


@pytest.fixture(scope="module")
def without_last(new_warehouse: NewWarehouse) -> Warehouse:
    """All of `SHAPE` but one model, in one build."""
    warehouse = new_warehouse(SHAPE)
    remove_last(warehouse)
    warehouse.run()
    return warehouse


@pytest.fixture(scope="module")
def fresh(without_last: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """All of `SHAPE`, that model built last; tests change copies of it."""
    warehouse = without_last.copied(tmp_path_factory.mktemp("fresh"))
    write_warehouse(warehouse.data, SHAPE, only_model=1)
    warehouse.run()
    return warehouse


def test_an_added_variant_has_a_value_and_computes_no_token_again(fresh, tmp_path):
    changed = fresh.copied(tmp_path)
    before, values = incremental_rows(changed), changed.values("context_gain")
    add_variant(changed, "context_gain", "added", where="gain > 0.3")
    changed.run("--select", "context_gain+")
    assert incremental_rows(changed) == before
    found = changed.values("context_gain")
    assert found["added@window_64", "lab--model-0"] is not None
    kept = {key: value for key, value in found.items() if key in values}
    assert kept == pytest.approx(values, rel=1e-9)
    whole = Warehouse(changed.data, tmp_path / "whole.duckdb", changed.project)
    whole.run()
    assert_same_values(changed, whole)
    changed.run()
    assert incremental_rows(changed) == before, "nothing to do writes nothing"


def test_a_variant_and_a_model_added_in_one_run_have_all_values(without_last, tmp_path):
    """The new variant is computed for all models, those that were there for the new model only."""
    changed = without_last.copied(tmp_path)
    write_warehouse(changed.data, SHAPE, only_model=1)
    add_variant(changed, "perplexity", "late", where="position > 300")
    add_variant(changed, "perplexity", "unfiltered", numerator="sum(nll ** 2)")
    changed.run()
    whole = Warehouse(changed.data, tmp_path / "whole.duckdb", changed.project)
    whole.run()
    assert_same_values(changed, whole)
    assert changed.values("perplexity")["late", LAST] is not None


def test_an_added_model_computes_only_itself(without_last, fresh):
    before, after = incremental_rows(without_last), incremental_rows(fresh)
    for table in ("token_features", "fct_tokens"):
        assert changes(before[table], after[table])[:2] == (SHAPE.documents, 0), table


def test_a_vanished_model_leaves_no_trace(without_last, fresh, tmp_path):
    warehouse = fresh.copied(tmp_path)
    remove_last(warehouse)
    warehouse.run()
    assert_same_values(warehouse, without_last)
    for table in ("fct_tokens", "metric_documents"):
        assert warehouse.rows(f"select count(*) from {table} where model_id = '{LAST}'") == [(0,)]


@pytest.mark.parametrize("name", ["words", "token_features", "fct_tokens"])
def test_rows_of_edited_sql_are_computed_again(fresh, tmp_path, name):
    """A changed definition keeps no old rows."""
    edited = fresh.copied(tmp_path)
    before = incremental_rows(edited)
    with (edited.project / "models" / "tokens" / f"{name}.sql").open("a") as file:
        file.write("-- an edit\n")
    edited.run()
    after = incremental_rows(edited)
    for table in KEYS:
        again = table != "words" or name == "words"
        assert before[table].keys().isdisjoint(after[table].keys()) == again, table
    assert_same_values(edited, fresh)


def test_an_edited_variant_is_computed_again(fresh, tmp_path):
    edited = fresh.copied(tmp_path)
    path = edited.project / "models" / "metrics" / "perplexity.sql"
    path.write_text(path.read_text().replace("'sum(nll)'", "'sum(2 * nll)'"))
    before = edited.values("perplexity")
    edited.run("--select", "perplexity+")
    for key, value in edited.values("perplexity").items():
        assert value == pytest.approx((before[key] or 0) ** (2 if key[0] == "micro" else 1)), key


def test_changed_units_replace_their_rows_and_each_problem_has_its_own_words(fresh, tmp_path):
    """`again` reads what `synthetic` read before; `synthetic` now reads what `other` reads.

    `again` and `other` are built in one run, `synthetic` model by model and over what was there.
    """
    warehouse = fresh.copied(tmp_path)
    for problem, seed in (("synthetic", 1), ("again", 0), ("other", 1)):
        write_warehouse(warehouse.data, replace(SHAPE, problem=problem, seed=seed))
    warehouse.run()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    query = "select problem, metric, variant, model_id, coalesce(value, 'nan') from metric_values"
    for problem, *key, value in warehouse.rows(query):
        found.setdefault(problem, {})[tuple(key)] = value
    before = {tuple(key): value for _, *key, value in fresh.rows(query)}
    assert found["again"] == pytest.approx(before, rel=1e-9, nan_ok=True)
    assert found["synthetic"] == pytest.approx(found["other"], rel=1e-9, nan_ok=True)
    perplexity = [key for key in before if key[0] == "perplexity"]
    assert perplexity and all(found["synthetic"][key] != before[key] for key in perplexity)
