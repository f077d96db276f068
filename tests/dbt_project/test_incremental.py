"""What a change makes dbt compute again: rows that stay keep their row ids."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from dbt_harness import NewWarehouse, Warehouse, add_variant, assert_same_values
from made_up_warehouse import Shape, Window, write_warehouse

from warehouse.metrics import last_build
from warehouse.metrics.dbt_process import run_dbt
from warehouse.metrics.last_build import narrowed
from warehouse.metrics.lineage import ancestors

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHAPE = Shape(models=3, documents=2, tokens=700, windows=(Window(64, 32),), vocabulary=60)


@dataclass(frozen=True)
class Rows:
    """Row ids of an incremental table, by its id; what is written anew has other row ids."""

    by_id: dict[int, frozenset[int]]

    def added_since(self, before: Rows) -> set[int]:
        """Builds that are new, once all the others are known to be untouched."""
        kept = self.by_id.keys() & before.by_id.keys()
        assert all(self.by_id[build] == before.by_id[build] for build in kept)
        return self.by_id.keys() - before.by_id.keys()


IDS = {
    "int_context_pairs": "unit_id",
    "int_token_words": "token_features_id",
    "int_token_repeats": "tokenisation_id",
    "int_token_overlaps": "tokenisation_id",
}
"""The tables of all tokens have no build_id."""


def incremental_rows(warehouse: Warehouse) -> dict[str, Rows]:
    """Every incremental table."""
    tables = [
        node["name"]
        for node in warehouse.manifest["nodes"].values()
        if node["resource_type"] == "model" and node["config"]["materialized"] == "incremental"
    ]
    return {
        table: Rows(
            {
                build: frozenset(rows)
                for build, rows in warehouse.rows(
                    f"select {IDS.get(table, 'build_id')}, list(rowid) "
                    f"from intermediate.{table} group by 1"
                )
            }
        )
        for table in tables
    }


LAST = "lab--model-1"
"""It has a tokenizer of its own and is not the evaluator."""


def remove_last(warehouse: Warehouse) -> None:
    for table in ("tokens", "models", "downstream"):
        shutil.rmtree(warehouse.data / table / "problem=synthetic" / f"model_id={LAST}")


@pytest.fixture(scope="module")
def without_last(new_warehouse: NewWarehouse) -> Warehouse:
    """All of `SHAPE` but one model, built at once."""
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


def changed_tables(before: dict[str, Rows], after: dict[str, Rows]) -> set[str]:
    return {table for table in after if after[table] != before[table]}


def test_an_added_threshold_builds_its_family_and_computes_only_the_sums_it_cuts(
    fresh: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What `tokenmart dbt build` leaves out would have come out the same."""
    changed = fresh.copied(tmp_path)
    before, values = incremental_rows(changed), changed.values("longppl")
    assert len(before) >= 12 and all(rows.by_id for rows in before.values())
    with changed.as_workspace() as workspace:
        last_build.remember(workspace, last_build.read_by_build(workspace))
        assert run_dbt(("build", "--quiet"), workspace) == 0
        assert "nothing new since the last build" in capfd.readouterr().out
        add_variant(changed, "longppl", {"variant": "added", "alpha": "0.3", "beta": "-2"})
        assert run_dbt(("build", "--quiet"), workspace) == 0
        said = capfd.readouterr().out
        assert "all that differs from the last build: longppl\n" in said
    after = incremental_rows(changed)
    assert changed_tables(before, after) == {"int_key_sums"}
    found = changed.values("longppl")
    assert found["added@window_64", "lab--model-0"] is not None
    assert {key: value for key, value in found.items() if key in values} == pytest.approx(values)
    whole = changed.copied(tmp_path / "whole")
    whole.run()
    assert changed_tables(after, incremental_rows(whole)) == set(), "nothing to do writes nothing"
    assert_same_values(changed, whole)
    for table in ("metric_catalog", "metric_documents", "position_profile"):
        assert whole.rows(f"select count(*) from {table}") == changed.rows(
            f"select count(*) from {table}"
        )


def test_every_family_is_built_with_all_that_its_variants_change(fresh: Warehouse) -> None:
    """What is selected for a changed variants file holds all that `refuse_partial_builds` asks."""
    graph, below = fresh.manifest["parent_map"], fresh.manifest["child_map"]
    of = "model.tokenmart."
    read = ancestors(below, of + "stg_metric_variants") | {of + "stg_metric_variants"}
    values = ancestors(graph, of + "metric_values")
    others = values - ancestors(graph, of + "metric_documents")
    ends = {of + "metric_values", *graph[of + "metric_values"]} | ancestors(
        below, of + "metric_values"
    )
    assert {name for name in others & read if name.startswith(of)} <= ends
    assert narrowed(["a", "b"]) == [
        "--select",
        "stg_metric_variants+,+a",
        "a+",
        "stg_metric_variants+,+b",
        "b+",
        "1+metric_values",
        "metric_values+",
    ]


def test_an_added_model_computes_only_itself(without_last: Warehouse, fresh: Warehouse) -> None:
    before = incremental_rows(without_last)
    added = {
        table: len(rows.added_since(before[table]))
        for table, rows in incremental_rows(fresh).items()
    }
    assert {table for table, builds in added.items() if builds == 0} == {
        "int_words",
        "int_key_characters",
    }
    assert {builds for builds in added.values() if builds} == {SHAPE.documents}


def test_a_vanished_model_leaves_no_trace(
    without_last: Warehouse, fresh: Warehouse, tmp_path: Path
) -> None:
    warehouse = fresh.copied(tmp_path)
    remove_last(warehouse)
    warehouse.run()
    assert_same_values(warehouse, without_last)
    for table in ("context_pairs", "intermediate.int_region_sums"):
        assert warehouse.rows(f"select count(*) from {table} where model_id = '{LAST}'") == [(0,)]


def test_an_edit_is_computed_anew_with_all_that_reads_it(fresh: Warehouse, tmp_path: Path) -> None:
    """Also after a selection that had the words' readers compute from what they read before."""
    edited = fresh.copied(tmp_path)
    readers = {
        "int_context_pairs": {
            "int_region_pair_sums",
            "int_key_sums",
            "int_weighted_gain_sums",
            "int_gain_quantiles",
            "int_word_pair_sums",
            "int_repeat_pair_sums",
            "int_key_characters",
            "int_external_key_sums",
        },
        "int_token_words": {"int_word_sums", "int_word_pair_sums"},
    }
    values, before = edited.values("longppl"), incremental_rows(edited)

    def edit(name: str) -> None:
        with (edited.project / "models" / "intermediate" / f"{name}.sql").open("a") as file:
            file.write("-- an edit\n")

    edit("int_token_words")
    edited.run("--select", "int_token_words", *readers["int_token_words"])
    between = incremental_rows(edited)
    edit("int_context_pairs")
    edited.run()
    after = incremental_rows(edited)
    assert changed_tables(before, after) == set(readers).union(*readers.values())
    for table in ("int_context_pairs", "int_token_words", *readers["int_token_words"]):
        for earlier in (before, between):
            assert not after[table].by_id.keys() & earlier[table].by_id.keys(), table
    assert edited.values("longppl") == pytest.approx(values)


def test_changed_units_replace_their_rows_and_each_problem_has_its_own_words(
    fresh: Warehouse, tmp_path: Path
) -> None:
    """`again` reads what `synthetic` read before; `synthetic` now reads what `other` reads.

    `again` and `other` are built at once, `synthetic` model by model and over what was there.
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
