"""A build in shards: the same values as in one, and a failure stays alone."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import SHAPE, Warehouse, assert_same_values

from plugins.cluster.shards import (
    Shard,
    _first_error,
    assign_models,
    build_sharded,
    run_here,
)
from plugins.cluster.shards_on_ray import duckdb_limit, on_ray
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

MODELS = {f"m{number}": 10 * (number + 1) for number in range(5)}
TOKENIZERS = {model: "even" if int(model[1]) % 2 == 0 else "odd" for model in MODELS}
GRIDS = {"grids": True}


def test_models_of_one_tokenizer_lie_together_and_sizes_are_even() -> None:
    assert assign_models(MODELS, TOKENIZERS, 2) == [["m0", "m2", "m4"], ["m1", "m3"]]


def test_with_more_shards_than_models_some_stay_empty() -> None:
    divided = assign_models(MODELS, TOKENIZERS, 9)
    assert sorted(model for part in divided for model in part) == sorted(MODELS)
    assert len(divided) == 9 and max(map(len, divided)) <= 2


def test_models_stay_where_they_were_and_a_new_one_goes_to_the_smallest_shard() -> None:
    before = [["m4", "gone"], ["m0", "m1"]]
    assert assign_models(MODELS, TOKENIZERS, 2, before) == [["m4", "m3"], ["m0", "m1", "m2"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("build --count 0", "'--count': 0 is not in the range"),
        ("build --count many", "'--count': 'many' is not a valid integer"),
        ("build --count 2 --on dask", "'--on': 'dask' is not 'ray'"),
        ("build --on ray", "Missing option '--count'"),
        ("build --count 2 --address a", "--address goes with --on ray"),
        ("test --count 2", "'test' is not one of 'run', 'build'"),
        ("build --vars [ --count 2", "--vars [: write a mapping, such as"),
        ("build --count 2", "no token files, nothing to divide; run `tokenmart extract`"),
    ],
)
def test_a_wrong_command_is_refused(workspace: Workspace, words: str, message: str) -> None:
    done = CliRunner().invoke(cli, ["shards", *words.split()])
    assert done.exit_code != 0 and message in done.output, done.output


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "06:16  Encountered an error:\nDatabase Error\n  Runtime Error\n    a.parquet: bad\n",
            "a.parquet: bad",
        ),
        (
            "1 of 2 ERROR in table m\n  Runtime Error in model m (m.sql)\n  Binder Error: x\n",
            "in model m (m.sql) Binder Error: x",
        ),
        ("fine\n3 of 4 FAIL 2 one_row_per\nmore\n", "3 of 4 FAIL 2 one_row_per"),
        ("Killed\n", "Killed"),
        ("", "dbt ended without a word"),
    ],
)
def test_what_dbt_says_becomes_one_line(output: str, line: str) -> None:
    assert _first_error(output) == line


def of_shards(warehouse: Warehouse, folder: Path) -> Warehouse:
    """The same data, with another database, which nothing has built."""
    shutil.copytree(warehouse.data, folder / "data")
    return Warehouse(folder / "data", folder / "warehouse" / "tokenmart.duckdb")


def build(warehouse: Warehouse, shards: int) -> int:
    with warehouse.as_workspace() as workspace:
        return build_sharded("build", GRIDS, workspace, shards, run_here)


def folders(warehouse: Warehouse) -> list[Path]:
    return sorted((warehouse.database.parent / "shards").glob("[0-9]*"))


def assert_same_tables(one: Warehouse, other: Warehouse) -> None:
    for table in ("position_profile", "metric_documents"):
        keys = "problem, model_id, condition, position_from"
        measures = ["tokens", "nll", "short_nll", "gain", "entropy", "accuracy"]
        if table == "metric_documents":
            keys, measures = "problem, metric, variant, model_id, doc_id", ["numerator", "weight"]
        query = f"select {keys}, {', '.join(measures)} from {table}"
        width = len(keys.split(","))
        mine, theirs = ({row[:width]: row[width:] for row in w.rows(query)} for w in (one, other))
        assert mine.keys() == theirs.keys() and mine
        for key, values in mine.items():
            for wanted, found in zip(values, theirs[key], strict=True):
                assert (wanted is None) == (found is None), (table, key)
                close = wanted is None or math.isclose(wanted, found, rel_tol=1e-9, abs_tol=1e-12)
                assert close, (table, key, wanted, found)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_shards_make_the_values_of_one_build_and_a_failed_one_leaves_the_others(
    built: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sharded = of_shards(built, tmp_path)
    assert build(sharded, 3) == 0
    assert "3 of 3 shards built" in capfd.readouterr().out
    assert len(folders(sharded)) == 3
    assert_same_values(built, sharded)
    assert_same_tables(built, sharded)
    for table in ("metric_catalog", "coverage"):
        query = f"select * from {table} order by all"
        assert sharded.rows(query) == built.rows(query)
    # tables of tokens are the shards' alone
    tables = {name for (name,) in sharded.rows("select table_name from duckdb_tables()")}
    assert "metric_values" in tables and "fct_tokens" not in tables
    # the evaluator's tokens are read in each shard: its values are there
    external = {model for (_, model), x in sharded.values("longppl_external").items() if x}
    assert len(external) == SHAPE.models

    attempts: list[int] = []

    def with_a_failure(
        shards: Sequence[Shard], workspace: Workspace
    ) -> Iterator[tuple[Shard, str]]:
        for shard in shards:
            attempts.append(shard.number)
            if "lab--model-1" in shard.models:
                yield shard, "no memory"
            else:
                yield from run_here([shard], workspace)

    with sharded.as_workspace() as workspace:
        assert build_sharded("build", GRIDS, workspace, 3, with_a_failure) == 1
    said = capfd.readouterr()
    assert "(lab--model-1" in said.err and "no memory; building it again" in said.err
    assert "2 of 3 shards built" in said.out
    assert len(attempts) == 4 and attempts[3] in attempts[:3]
    victims = sharded.rows("select * from metric_values where starts_with(reason, 'shard ')")
    assert {row[3] for row in victims} >= {"lab--model-1"}
    lost = {row[3] for row in victims}
    others = "select metric, variant, model_id, coalesce(value, 'nan') from metric_values"
    kept, before = (
        {
            (metric, variant, model): value
            for metric, variant, model, value in w.rows(others)
            if model not in lost
        }
        for w in (sharded, built)
    )
    # sums of floats differ in their last bits from build to build
    assert kept == pytest.approx(before, rel=1e-9, nan_ok=True) and kept


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_build_on_ray_makes_the_same_values(built: Warehouse, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    on = of_shards(built, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_MEMORY", "1GiB")
        with on.as_workspace() as workspace:
            assert build_sharded("build", GRIDS, workspace, 2, on_ray(None)) == 0
    assert_same_values(built, on)


def test_the_memory_of_a_shard_is_duckdbs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENMART_MEMORY", raising=False)
    assert duckdb_limit() == 5 << 30
    monkeypatch.setenv("TOKENMART_MEMORY", "512MiB")
    assert duckdb_limit() == 512 << 20
    monkeypatch.setenv("TOKENMART_MEMORY", "much")
    with pytest.raises(TokenmartError, match="TOKENMART_MEMORY=much: not a size"):
        duckdb_limit()
