"""Ways to a target score, and to a file, from SQL: DuckDB's sandbox or one of our lines answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from refusal import refuses
from sql_samples import build_mart

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.metrics.dbt_plugin import Plugin
from warehouse.paths import Workspace, workspace_of
from warehouse.sql.dataframes import query
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM
from warehouse.store.token_files import published_path

pytestmark = pytest.mark.hostile

SECRET = 0.4242
"""A target score that no other number equals."""

# {items}: the scores' file; {labels}: their folder; {store}: the data folder; {own}: a token file;
# {json}: a target file; {other}: a database with the scores
WAYS = {
    "by its name": "from downstream",
    "by its full name": "from memory.main.downstream",
    "in other letters": 'from "DownStream"',
    "as a built table": "from downstream_scores",
    "by a computed name": "from query_table('down' || 'stream')",
    "in the text of a query": "from query('from down' || 'stream')",
    "by the catalogue": "select sql from duckdb_views() where view_name like 'down%'",
    "by the catalogue of columns": "from information_schema.columns where table_name ~ 'down'",
    "a file by its name": "from '{items}'",
    "a file by a function": "from read_parquet('{items}')",
    "files by a pattern": "from read_parquet('{labels}/**/*.parquet')",
    "a file behind one that may be read": "from read_parquet(['{own}', '{items}'])",
    "by way of the folder above": "from read_parquet('{store}/tokens/../downstream/**/*.parquet')",
    "as bytes": "from read_blob('{items}')",
    "as a URL": "from 'file://{items}'",
    "the names of files": "from glob('{labels}/**')",
    "the file's footer": "from parquet_metadata('{items}')",
    "a target file": "from read_json('{json}')",
    "in a CTE of an innocent name": "with tokens as (from '{items}') from tokens",
    "in a view": "create view v as from '{items}'; from v",
    "in a macro": "create macro m() as table from read_parquet('{items}'); from m()",
    "by a variable": "set variable f = '{items}'; from read_parquet(getvariable('f'))",
    "prepared": "prepare p as from '{items}'; execute p",
    "in a lateral join": "from tokens, lateral (from '{items}')",
    "another database": "attach '{other}' as other; from other.scores",
    "another database by a function": "from read_duckdb('{other}')",
    "an imported database": "import database '{labels}'",
    "a wider sandbox": "set allowed_directories = ['{labels}/']; from '{items}'",
    "no sandbox": "set enable_external_access = true; from '{items}'",
    "an unlocked configuration": "set lock_configuration = false",
    "a searched folder": "set file_search_path = '{labels}'; from 'items.parquet'",
    "an extension": "install sqlite; load sqlite",
    "a secret": "create secret s (type s3)",
    "the environment": "select getenv('HOME')",
    "a variable of Python": "from frame",
    "a log of the query": "call enable_logging(storage = 'file', storage_path = '{labels}')",
    "a copy of the file": "copy (from '{items}') to '{own}'",
    "serialised": "from json_execute_serialized_sql(json_serialize_sql('from ''{items}'''))",
}


ITEMS = Path("downstream") / "problem=minilong" / "model_id=good" / "items.parquet"


@pytest.fixture(scope="module")
def guarded(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with target scores of `SECRET`."""
    root = tmp_path_factory.mktemp("guarded")
    shutil.copytree(filled_store, root / "data")
    warehouse = workspace_of(root)
    build_mart(warehouse)
    rows = [{"task": "recall_8", "item": n, "cluster": n, "score": SECRET} for n in range(4)]
    write_table(warehouse.store / ITEMS, pa.Table.from_pylist(rows, DOWNSTREAM))
    (root / "target.json").write_text(f'[{{"model": "good", "overall": {SECRET}}}]')
    with duckdb.connect(str(root / "other.duckdb")) as connection:
        connection.execute(f"create table scores as select {SECRET} as score")
    return root


@pytest.fixture
def places(workspace: Workspace, guarded: Path) -> dict[str, str]:
    """A copy of that checkout, and what the ways name."""
    shutil.copytree(guarded, workspace.root, dirs_exist_ok=True)
    return {
        "items": str(workspace.store / ITEMS),
        "labels": str(workspace.store / "downstream"),
        "store": str(workspace.store),
        "own": str(published_path(workspace, "minilong", "good", "full")),
        "json": str(workspace.root / "target.json"),
        "other": str(workspace.root / "other.duckdb"),
    }


def has_a_score(rows: list[Any]) -> bool:
    return "downstream" in str(rows) or str(SECRET) in str(rows)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_query_reaches_a_target_score(places, way):
    before = Path(places["own"]).read_bytes()
    frame = pa.table({"score": [SECRET]})
    try:
        rows = query(way.format(**places)).to_pylist()
    except TokenmartError as error:
        assert error.code.startswith("sql-"), error.code
    else:
        assert rows == []
    assert Path(places["own"]).read_bytes() == before and frame.num_rows == 1


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_model_of_dbt_reaches_a_target_score(places, workspace, way):
    """On the connection of every model, hook and `run_query`; prepared and copied, too."""
    with duckdb.connect(str(workspace.database)) as connection:
        Plugin.configure_connection(object.__new__(Plugin), connection)
        rows: list[Any] = []
        try:
            for statement in connection.extract_statements(way.format(**places)):
                found = connection.cursor().execute(statement)
                rows = found.fetchall() if found is not None else []
        except duckdb.Error:
            rows = []
    assert not has_a_score(rows)


def test_a_person_sees_targets_but_saves_none(places, tmp_path):
    shown = CliRunner().invoke(cli, ["sql", "--targets", "from downstream_scores"])
    assert shown.exit_code == 0 and str(SECRET) in shown.stdout
    for more in (["--out", str(tmp_path / "scores.csv")], ["--format", "csv"]):
        refused = CliRunner().invoke(cli, ["sql", "--targets", "from downstream_scores", *more])
        assert refused.exit_code == 2
    assert not (tmp_path / "scores.csv").exists()


WRITES = [
    "copy (select 1) to '{own}' (format parquet)",
    "with p as not materialized (/* x */ ((CoPy (select 1) to '{own}'))) select * from p",
    "prepare p as copy (select 1) to '{own}'; execute p",
    "explain analyze/**/copy metric_values to '{own}' (format parquet)",
    "with p as (select 1) copy p to '{own}' (format parquet)",
    "copy from database tokenmart to tokenmart",
    "from main.\"query\" ('copy (select 1) to '{own}'')",
    "export database '{store}/tokens/new'",
    "from query('with p as (co' || 'py (select 1) to {own}) from p')",
    "attach '{store}/tokens/new.duckdb'",
    "insert into metric_values select * from metric_values",
    "create or replace table tokenmart.main.metric_values as select 1",
    "set temp_directory = '{store}/tokens'",
    "call enable_logging(storage = 'file', storage_path = '{store}/tokens')",
    "pragma profiling_output = '{own}'",
    "detach tokenmart",
]


@pytest.mark.parametrize("statement", WRITES)
def test_nothing_is_written(places, workspace, statement):
    before = {path: path.stat().st_mtime_ns for path in workspace.store.rglob("*.parquet")}
    with pytest.raises(TokenmartError):
        query(statement.format(**places))
    assert {path: path.stat().st_mtime_ns for path in workspace.store.rglob("*.parquet")} == before
    assert not list(workspace.store.rglob("new*"))
    assert query("from metric_values").num_rows == 2


def test_memory_is_limited(workspace, monkeypatch):
    greedy = "select length(string_agg(repeat('x', 1000000), '')) as n from range(200)"
    monkeypatch.setenv("TOKENMART_MEMORY", "100MiB")
    with refuses("sql-error"):
        query(greedy)
    monkeypatch.setenv("TOKENMART_MEMORY", "2GiB")
    assert query(greedy)["n"][0].as_py() == 200_000_000


@pytest.mark.parametrize(
    "statement",
    [
        "describe tokens",
        "show tables",
        "summarize select logprob from tokens",
        pytest.param(
            "pivot (select 1 as a, 2 as b) on a using sum(b)",
            marks=pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1.5 has no result"),
        ),
        "explain (analyze) from tokens",
        "set TimeZone = 'Europe/Berlin'; select now()",
        "set variable wanted = 'good'; from models where model_id = getvariable('wanted')",
        "create temp view mine as with x as (select 1) from x; from mine",
        "create or replace temp macro half(x) as (x / 2); select half(2)",
        "from read_parquet('{own}') limit 1",
        "select 'copy (select 1) to x' as a -- copy",
        'with query as (select 1 as copy) select query.copy, "copy" from query',
        'select copy, count(copy), max(copy + 1) as "query" from (select 1 as copy) group by copy',
    ],
)
def test_what_is_allowed(places, statement):
    assert query(statement.format(**places)).num_rows > 0
