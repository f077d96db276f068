"""What a change makes dbt compute again: rows that stay keep their row ids."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from dbt_harness import PROJECT, NewWarehouse, Warehouse, assert_same_values
from made_up_warehouse import Shape, Window, write_warehouse

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def fresh(new_warehouse: NewWarehouse) -> Warehouse:
    """All of `SHAPE`, built at once."""
    warehouse = new_warehouse(SHAPE)
    warehouse.run()
    return warehouse


def test_nothing_to_do_writes_nothing(fresh: Warehouse) -> None:
    before = incremental_rows(fresh)
    assert len(before) >= 12
    assert all(rows.by_id for rows in before.values())
    fresh.run()
    assert incremental_rows(fresh) == before


def test_an_added_model_computes_only_itself(new_warehouse: NewWarehouse, fresh: Warehouse) -> None:
    """Model 1 comes last; it has a tokenizer of its own and is not the evaluator."""
    warehouse = new_warehouse(SHAPE)
    for table in ("tokens", "models", "downstream"):
        shutil.rmtree(warehouse.data / table / "problem=synthetic" / "model_id=lab--model-1")
    warehouse.run()
    before = incremental_rows(warehouse)
    write_warehouse(warehouse.data, SHAPE, only_model=1)
    warehouse.run()
    added = {
        table: len(rows.added_since(before[table]))
        for table, rows in incremental_rows(warehouse).items()
    }
    assert {table for table, builds in added.items() if builds == 0} == {
        "int_words",
        "int_key_characters",
    }
    assert {builds for builds in added.values() if builds} == {SHAPE.documents}
    assert_same_values(warehouse, fresh)


def test_an_added_threshold_computes_only_the_sums_it_cuts(
    fresh: Warehouse, tmp_path: Path
) -> None:
    changed = fresh.with_own_project(tmp_path)
    before, values = incremental_rows(changed), changed.values("longppl")
    with (changed.project / "variants" / "longppl.csv").open("a", encoding="utf-8") as file:
        header = next((PROJECT / "variants" / "longppl.csv").open(encoding="utf-8"))
        setting = {"metric": "longppl", "variant": "added", "aggregation": "micro"}
        setting |= {"core": "true", "alpha": "0.3", "beta": "-2", "min_tokens": "1"}
        file.write(",".join(setting.get(name, "") for name in header.strip().split(",")) + "\n")
    changed.run()
    after = incremental_rows(changed)
    assert {table for table in after if after[table] != before[table]} == {"int_key_sums"}
    found = changed.values("longppl")
    assert found["added@window_64", "lab--model-0"] is not None
    assert {key: value for key, value in found.items() if key in values} == pytest.approx(values)


def test_an_edit_is_computed_anew_with_all_that_reads_it(fresh: Warehouse, tmp_path: Path) -> None:
    edited = fresh.with_own_project(tmp_path)
    edited.run()
    values = edited.values("longppl")
    for name, readers in {
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
    }.items():
        before = incremental_rows(edited)
        with (edited.project / "models" / "intermediate" / f"{name}.sql").open("a") as file:
            file.write("-- an edit\n")
        edited.run()
        after = incremental_rows(edited)
        assert {table for table in after if after[table] != before[table]} == {name, *readers}
        assert not after[name].by_id.keys() & before[name].by_id.keys()
        assert edited.values("longppl") == pytest.approx(values)


def test_a_selection_after_an_edit_leaves_nothing_behind(fresh: Warehouse, tmp_path: Path) -> None:
    """It makes the readers of the words compute from old ones, until all is run."""
    edited = fresh.with_own_project(tmp_path)
    with (edited.project / "models" / "intermediate" / "int_token_words.sql").open("a") as file:
        file.write("-- another edit\n")
    edited.run("--select", "int_token_words+")
    before = incremental_rows(edited)
    edited.run()
    after = incremental_rows(edited)
    readers = ("int_word_sums", "int_word_pair_sums")
    for table in ("int_token_words", *readers):
        assert not after[table].by_id.keys() & before[table].by_id.keys(), table
