"""Partial data, changed data, other thread counts: the library bends, it doesn't break."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from dbt_harness import SHAPE, NewWarehouse, Warehouse, assert_same_values
from made_up_warehouse import Shape, Window, write_warehouse

from warehouse.store.ledger import read_units, with_units
from warehouse.store.schema import TOKENS

pytestmark = pytest.mark.slow

SMALL = Shape(models=3, documents=2, tokens=400, windows=(Window(64, 32),))


def files(warehouse: Warehouse, table: str, model: str) -> Path:
    return warehouse.data / table / "problem=synthetic" / f"model_id={model}"


def test_an_empty_warehouse_builds(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "data", tmp_path / "tokenmart.duckdb")
    done = warehouse.dbt("build", "--quiet", "--vars", '{"grids": true}')
    assert done.returncode == 0, done.stdout
    assert "metric_values is empty: nothing was extracted" in done.stdout
    assert warehouse.rows("select count(*) from metric_values") == [(0,)]
    assert warehouse.rows("select count(*) from tokens") == [(0,)]
    assert warehouse.rows("select count(*) >= 300 from metric_catalog where admissible") == [
        (True,)
    ]


def test_missing_conditions_and_documents_leave_the_rest(new_warehouse: NewWarehouse) -> None:
    skip = frozenset(
        {
            ("lab--model-0", "window_64", None),
            ("lab--model-1", "retrieval_without", None),
            ("lab--model-2", "full", 1),
        }
    )
    warehouse = new_warehouse(replace(SMALL, skip=skip, downstream_items=0))
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
        "metric, '^(ladder|needle)_|^retrieval_(distance|lookup|order)$|^choice_divergence$')"
    )
    rows = warehouse.rows("select model_id, count(*) from metric_values group by all")
    assert [count for _, count in rows] == [known[0][0]] * SMALL.models
    documents = warehouse.rows(
        "select documents from metric_values where metric = 'context_gain' "
        "and variant = 'mean@window_64' and model_id = 'lab--model-2'"
    )
    assert documents == [(1,)]
    coverage = dict(warehouse.rows("select (model_id, condition), documents_missing from coverage"))
    assert coverage["lab--model-0", "window_64"] == 2
    assert coverage["lab--model-2", "full"] == 1
    assert coverage["lab--model-1", "full"] == 0


def test_failed_units_are_reported_and_not_counted(new_warehouse: NewWarehouse) -> None:
    warehouse = new_warehouse(replace(SMALL, models=1))
    path = files(warehouse, "tokens", "lab--model-0") / "condition=full" / "tokens.parquet"
    table = pq.ParquetFile(path).read()
    done, lost = read_units(path)
    lost = replace(lost, status="failed", reason="out of memory", rows=0, content_sha256="")
    kept = table.filter(table["doc_id"].to_numpy() == 0)
    pq.write_table(kept.cast(with_units(TOKENS, [done, lost])), path)
    warehouse.run()
    assert warehouse.rows(
        "select documents_done, documents_failed, documents_missing, failure from coverage "
        "where condition = 'full'"
    ) == [(1, 1, 0, "out of memory")]
    assert warehouse.rows(
        "select distinct documents from metric_values where metric = 'perplexity'"
    ) == [(1,)]


def test_thread_count_changes_nothing(new_warehouse: NewWarehouse, tmp_path: Path) -> None:
    """Documents that threads share: each spans row groups of the token files and of the pairs."""
    warehouse = new_warehouse(Shape(models=2, documents=2, tokens=70_000, retrieval=None))
    one, *others = (warehouse.with_threads(n, tmp_path / str(n)) for n in (1, 2, 4))
    for other in others:
        assert_same_values(one, other)


def test_values_keep_ten_digits_so_that_equal_models_tie(built: Warehouse) -> None:
    values = built.rows(
        "select any_value(kept.value), sum(made_of.numerator) / sum(made_of.denominator) "
        "from metric_values as kept "
        "inner join metric_documents as made_of using (problem, metric, variant, model_id) "
        "where metric = 'context_gain' and starts_with(variant, 'mean@') "
        "group by problem, metric, variant, model_id"
    )
    assert [kept for kept, _ in values] == [float(f"{computed:.9e}") for _, computed in values]
    assert any(kept != computed for kept, computed in values)


def test_a_changed_unit_replaces_its_rows(new_warehouse: NewWarehouse) -> None:
    warehouse = new_warehouse(replace(SMALL, models=2))
    warehouse.run()
    before = warehouse.values("perplexity")
    write_warehouse(warehouse.data, replace(SMALL, models=2, seed=1))
    warehouse.run()
    after = warehouse.values("perplexity")
    assert set(before) == set(after)
    assert all(before[key] != after[key] for key in before)
    fresh = new_warehouse(replace(SMALL, models=2, seed=1))
    fresh.run()
    assert_same_values(warehouse, fresh)


def test_a_second_problem_over_the_same_documents_gets_its_own_words(
    new_warehouse: NewWarehouse,
) -> None:
    warehouse = new_warehouse(SMALL)
    warehouse.run()
    write_warehouse(warehouse.data, replace(SMALL, problem="again"))
    warehouse.run()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for problem, *key, value in warehouse.rows(
        "select problem, metric, variant, model_id, coalesce(value, 'nan') from metric_values"
    ):
        found.setdefault(problem, {})[tuple(key)] = value
    assert found["again"] == pytest.approx(found["synthetic"], rel=1e-9, nan_ok=True)


def test_a_vanished_model_leaves_no_trace(new_warehouse: NewWarehouse) -> None:
    warehouse = new_warehouse(SMALL)
    warehouse.run()
    for table in ("tokens", "models", "downstream"):
        shutil.rmtree(files(warehouse, table, "lab--model-1"))
    warehouse.run()
    assert warehouse.rows("select distinct model_id from metric_values order by 1") == [
        ("lab--model-0",),
        ("lab--model-2",),
    ]
    assert warehouse.rows("select count(*) from context_pairs where model_id = 'lab--model-1'") == [
        (0,)
    ]


def test_variants_may_mix_line_endings_but_not_columns(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "data", tmp_path / "tokenmart.duckdb")
    warehouse = warehouse.with_own_project(tmp_path)
    variants = warehouse.project / "variants" / "key_share.csv"
    columns, *_ = variants.read_text(encoding="utf-8").splitlines()
    names = columns.split(",")
    setting = {"metric": "key_share", "variant": "added", "aggregation": "micro"}
    setting |= {"core": "true", "statistic": "share", "alpha": "0.3", "beta": "-2"}
    row = ",".join(setting.get(name, "") for name in names)
    query = "select alpha from staging.stg_metric_variants where variant = 'added'"
    with variants.open("a", encoding="utf-8", newline="") as file:
        file.write(row + "\r\n")
    warehouse.run()
    assert warehouse.rows(query) == [(0.3,)]
    with variants.open("a", encoding="utf-8", newline="") as file:
        file.write(row.replace("added", "wider") + ",7\n")
    refused = warehouse.dbt("run", "--select", "+key_share+")
    assert refused.returncode != 0
    assert "key_share.csv, line " in refused.stdout
    assert warehouse.rows(query) == [(0.3,)]


def test_readers_work_from_any_folder(
    built: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(built.database), read_only=True) as connection:
        (tokens,) = connection.execute("select count(*) from tokens").fetchone() or (0,)
    assert tokens > SHAPE.models * SHAPE.documents * 600
