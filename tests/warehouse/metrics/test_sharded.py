"""A build in shards: the same values as in one, what is shared is named, a failure stays alone."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import SHAPE, NewWarehouse, Warehouse, assert_same_values
from made_up_warehouse import Shape, Window

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.metrics.sharded.build import first_error
from warehouse.metrics.sharded.local import run_here
from warehouse.metrics.sharded.on_ray import duckdb_limit, on_ray
from warehouse.metrics.sharded.options import Sharding, take_sharding
from warehouse.metrics.sharded.plan import assign_models
from warehouse.metrics.sharded.run import build_sharded

MODELS = {("p", f"m{number}"): 10 * (number + 1) for number in range(5)}
TOKENIZERS = {model: "even" if int(model[1][1]) % 2 == 0 else "odd" for model in MODELS}


def test_models_of_one_tokenizer_lie_together_and_sizes_are_even() -> None:
    assert assign_models(MODELS, TOKENIZERS, 2) == [
        [("p", "m0"), ("p", "m2"), ("p", "m4")],
        [("p", "m1"), ("p", "m3")],
    ]


def test_with_more_shards_than_models_some_stay_empty() -> None:
    divided = assign_models(MODELS, TOKENIZERS, 9)
    assert sorted(model for part in divided for model in part) == sorted(MODELS)
    assert len(divided) == 9 and max(map(len, divided)) <= 2


def test_models_stay_where_they_were_and_a_new_one_goes_to_the_smallest_shard() -> None:
    before = [[("p", "m4"), ("p", "gone")], [("p", "m0"), ("p", "m1")]]
    assert assign_models(MODELS, TOKENIZERS, 2, before) == [
        [("p", "m4"), ("p", "m3")],
        [("p", "m0"), ("p", "m1"), ("p", "m2")],
    ]


@pytest.mark.parametrize(
    ("words", "rest", "found"),
    [
        ("build --quiet", "build --quiet", None),
        ("build --shards 3 --grids", "build --grids", Sharding(3)),
        ("build --shards=3 --on ray", "build", Sharding(3, "ray")),
        ("build --shards 2 --on ray --address a:1", "build", Sharding(2, "ray", "a:1")),
    ],
)
def test_options_are_taken_from_among_dbts(words: str, rest: str, found: Sharding | None) -> None:
    assert take_sharding(words.split()) == (rest.split(), found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("build --shards", "--shards: give it a value"),
        ("build --shards 0", "--shards 0: give a number of at least 1"),
        ("build --shards many", "--shards many: give a number"),
        ("build --on dask", "--on dask: unknown"),
        ("build --shards 2 --address a", "--address: goes with --on ray"),
    ],
)
def test_a_wrong_option_is_refused(words: str, message: str) -> None:
    with pytest.raises(TokenmartError, match=message):
        take_sharding(words.split())


def test_only_whole_builds_are_divided(filled: object) -> None:
    done = CliRunner().invoke(cli, ["dbt", "run", "--select", "x", "--shards", "2"])
    assert done.exit_code != 0


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
        ("", "dbt said nothing"),
    ],
)
def test_what_dbt_says_becomes_one_line(output: str, line: str) -> None:
    assert first_error(output) == line


def of_shards(warehouse: Warehouse, folder: Path) -> Warehouse:
    """The same data, with another database, which nothing has built."""
    shutil.copytree(warehouse.data, folder / "data")
    return Warehouse(folder / "data", folder / "warehouse" / "tokenmart.duckdb")


def build(warehouse: Warehouse, shards: int, *words: str) -> int:
    with warehouse.as_workspace() as workspace:
        return build_sharded(("build", *words), workspace, shards, run_here)


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


@pytest.fixture(scope="module")
def sharded(built: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The data of `built`, in three shards, with all variants."""
    warehouse = of_shards(built, tmp_path_factory.mktemp("sharded"))
    assert build(warehouse, 3, "--grids") == 0
    return warehouse


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_shards_make_the_values_of_one_build_of_all_families(
    built: Warehouse, sharded: Warehouse
) -> None:
    assert len(folders(sharded)) == 3
    assert_same_values(built, sharded)
    assert_same_tables(built, sharded)
    for table in ("metric_catalog", "coverage"):
        query = f"select * from {table} order by all"
        assert sharded.rows(query) == built.rows(query)
    # tables of tokens are the shards' alone
    tables = {name for (name,) in sharded.rows("select table_name from duckdb_tables()")}
    assert "metric_values" in tables and "int_context_pairs" not in tables
    # the evaluator's tokens were read by shards that don't own it: their values are there
    external = {model for (_, model), x in sharded.values("longppl_external").items() if x}
    assert len(external) == SHAPE.models


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_failed_shard_is_tried_again_and_named_and_leaves_the_others(
    built: Warehouse, sharded: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = sharded
    # a model's file loses bytes: its shard alone fails, twice, and is named with its models
    (victim,) = sorted((changed.data / "tokens").glob("*/model_id=lab--model-1/condition=full/*"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    assert build(changed, 3, "--grids") == 1
    said = capfd.readouterr()
    assert "(lab--model-1): " in said.err and "once more" in said.err
    assert str(victim) in said.err
    # in the others nothing is new: their dbt isn't started
    assert "2 of 3 shards built, 0 of them with something new" in said.out
    reasons = set(
        changed.rows(
            "select split_part(reason, ':', 1), value from metric_values "
            "where model_id = 'lab--model-1'"
        )
    )
    assert {value for _, value in reasons} == {None}
    assert any(reason.startswith("shard ") for reason, _ in reasons)
    others = "select * from metric_values where model_id != 'lab--model-1' order by all"
    assert [row[:4] for row in changed.rows(others)] == [row[:4] for row in built.rows(others)]
    # mended, only that shard is built
    victim.write_bytes(whole)
    assert build(changed, 3, "--grids") == 0
    assert "3 of 3 shards built, 1 of them with something new" in capfd.readouterr().out
    assert_same_values(built, changed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broken_family_is_left_out_of_all_shards_and_named(
    new_warehouse: NewWarehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shape = Shape(models=2, documents=2, tokens=300, windows=(Window(64, 32),), retrieval=None)
    warehouse = new_warehouse(shape).with_own_project(tmp_path)
    family = warehouse.project / "models" / "marts" / "metrics" / "entropy.sql"
    family.write_text(family.read_text("utf-8").replace("select * from", "select no_column from"))
    assert build(warehouse, 2) == 1
    said = capfd.readouterr()
    assert "error: entropy: failed" in said.err and "2 of 2 shards built" in said.out
    metrics = {metric for (metric,) in warehouse.rows("select distinct metric from metric_values")}
    assert "perplexity" in metrics and "entropy" not in metrics


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_build_on_ray_makes_the_same_values(built: Warehouse, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    on = of_shards(built, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_MEMORY", "1GiB")
        with on.as_workspace() as workspace:
            assert build_sharded(("build", "--grids"), workspace, 2, on_ray(None)) == 0
    assert_same_values(built, on)


def test_the_memory_of_a_shard_is_duckdbs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENMART_MEMORY", raising=False)
    assert duckdb_limit() == 5 << 30
    monkeypatch.setenv("TOKENMART_MEMORY", "512MiB")
    assert duckdb_limit() == 512 << 20
    monkeypatch.setenv("TOKENMART_MEMORY", "much")
    with pytest.raises(TokenmartError, match="TOKENMART_MEMORY=much: not a size"):
        duckdb_limit()
