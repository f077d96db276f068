"""The public views: one definition, the same columns through every door."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT
from made_up_warehouse import Shape, write_warehouse
from sql_samples import opened_elsewhere
from warehouse_samples import KEYS, make_rows, make_text, make_unit

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sources.documents import Document, documents_table
from warehouse.sql.connection import connect_to_parquet
from warehouse.sql.views import metric_tables
from warehouse.store.ledger import DECIDED, UNITS
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS, table_path
from warehouse.store.token_files import publish, write_top_tokens, write_unit

Columns = list[tuple[str, str]]


def columns(connection: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Name and type of every column of the public views, in order."""
    ledgers = [table.ledger for table in metric_tables().values() if table.ledger]
    found = {
        view: [row[:2] for row in connection.execute(f"describe {view}").fetchall()]
        for view in (*metric_tables(), *ledgers, "contexts")
    }
    assert all(found.values())
    return found


def of_schema(schema: pa.Schema) -> Columns:
    relation = duckdb.from_arrow(schema.empty_table())
    return list(zip(relation.columns, map(str, relation.types), strict=True))


def expected() -> dict[str, Columns]:
    """What the schemas say, in DuckDB's own reading of Arrow types."""
    found = {
        name: [*((key, "VARCHAR") for key in keys), *of_schema(schema)]
        for name, (schema, keys, *_) in metric_tables().items()
    }
    for name, table in metric_tables().items():
        if table.ledger:
            found[name].append(("nll", dict(of_schema(TOKENS))["logprob"]))
            decided = of_schema(DECIDED) if table.ledger == "units" else []
            found[table.ledger] = of_schema(UNITS) + decided
    names = ("problem", "needs", "context", "condition", "short_condition")
    return found | {"contexts": [(name, "VARCHAR") for name in names]}


def test_the_views_are_those_of_the_schemas_with_and_without_files(workspace):
    for _ in range(2):
        with connect_to_parquet(workspace) as connection:
            assert columns(connection) == expected()
        write_warehouse(workspace.data, Shape(models=1, documents=1, tokens=300))


def test_the_database_has_the_same_columns_before_and_after_dbt(built, workspace):
    before = Workspace(workspace.root, built.data, workspace.database)
    with connect_to_parquet(before) as connection:
        assert columns(connection) == expected()
    with duckdb.connect(str(built.database), read_only=True) as connection:
        assert columns(connection) == expected()


@pytest.mark.parametrize(
    ("name", "sibling"), [("exp[1]", "exp1"), ("run*", "run1"), ("try?", "tryx")]
)
def test_a_folder_whose_name_is_a_pattern_is_read_and_no_other(
    workspace, monkeypatch, name, sibling
):
    write_warehouse(workspace.root / sibling, Shape(models=2, documents=1, tokens=400))
    write_warehouse(workspace.root / name, Shape(models=1, documents=1, tokens=300))
    monkeypatch.setenv("TOKENMART_DATA", str(workspace.root / name))
    files = sorted((workspace.root / name / "tokens").rglob("*.parquet"))
    rows = [pq.read_metadata(file).num_rows for file in files]

    def counted(table: str) -> dict[str, int]:
        query = f"select count(*) as rows, count(distinct condition) as conditions from {table}"
        done = CliRunner().invoke(cli, ["sql", "--format", "json", query])
        assert done.exit_code == 0, done.output
        (found,) = json.loads(done.stdout)
        return dict(found)

    assert counted("tokens") == {"rows": sum(rows), "conditions": len(files)}
    assert counted("units") == {"rows": len(files), "conditions": len(files)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (PROJECT, []),
        (PROJECT.parent, ["--project-dir", "dbt_project"]),
        (PROJECT.parent, ["--project-dir", "dbt_project", "--profiles-dir", "dbt_project"]),
    ],
)
def test_plain_dbt_works_inside_the_project_and_from_the_root(
    tmp_path, monkeypatch, folder, arguments
):
    """The files are those of the workspace, relative to no folder."""
    write_warehouse(tmp_path / "data", Shape(models=1, documents=1, tokens=300))
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "own.duckdb"))
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    dbt = Path(sys.executable).with_name("dbt")
    command = [str(dbt), "run", "--quiet", "--select", "coverage"]
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    with duckdb.connect(str(tmp_path / "own.duckdb"), read_only=True) as connection:
        assert connection.execute("select count(*) from coverage").fetchall() == [(4,)]


def test_the_database_of_plain_dbt_is_the_one_the_other_commands_read(workspace, monkeypatch):
    """Without $TOKENMART_DATABASE too: the profile's relative path is no folder to depend on."""
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})

    class Credentials:
        path = "warehouse/tokenmart.duckdb"

    for folder in (workspace.root, workspace.dbt_project):
        monkeypatch.chdir(folder)
        plugin.update_connection_config(Credentials, {})
        assert Credentials.path == str(workspace.database)
    assert workspace.database.exists()


def test_a_full_disk_is_named_and_leaves_no_database(workspace):
    """DuckDB would leave the head of a file, which no later run could open."""
    pytest.importorskip("warehouse.metrics.dbt_plugin")
    code = (
        "import resource; from warehouse.metrics.dbt_plugin import Plugin\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "Plugin('tokenmart', {}).update_connection_config(type('Credentials', (), {}), {})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and str(workspace.database) in done.stderr, done.stderr
    assert "different configuration" not in done.stderr and last
    assert not workspace.database.exists()


def test_a_failure_of_the_views_is_named_and_closes_the_database(workspace, monkeypatch):
    """Open, it would make dbt's second attempt fail with a message of its own."""
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    rows = make_rows(0, 50)
    write_unit(workspace, make_unit(0, rows), rows)
    creds = type("Credentials", (), {})
    for _ in range(2):
        plugin.update_connection_config(creds, config := {"memory_limit": "1GiB"})
        connection = duckdb.connect(creds.path, config=config)
        connection.execute("create or replace table main.tokens as select 1 as x")
        with pytest.raises(Exception, match="tokens"):
            plugin.configure_connection(connection)


def test_metrics_are_built_from_units_of_a_run_that_was_killed(workspace):
    """A run publishes a model's units when it ends."""
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    rows = make_rows(0, 50)
    write_unit(workspace, make_unit(0, rows), rows)
    with duckdb.connect() as connection:
        plugin.configure_connection(connection)
        counts = connection.execute("select count(*), sum(position) from main.tokens").fetchall()
    assert counts == [(50, 49 * 25)]


def test_rows_of_a_text_that_was_replaced_are_left_out(workspace):
    """Their characters would be read from the new text, and its bytes counted for them."""
    for doc_id in range(2):
        rows = make_rows(doc_id, 50)
        unit = make_unit(doc_id, rows)
        write_unit(workspace, unit, rows)
        keys = rows.select(["doc_id", "segment", "position"]).to_pydict()
        top = pa.table({**keys, "choice": [1] * 50, "choice_id": [7] * 50, "logprob": [-0.5] * 50})
        write_top_tokens(workspace, unit, top, 1)
    publish(workspace, *KEYS)
    texts = [Document(str(doc_id), make_text(doc_id)) for doc_id in range(2)]

    def documents(first: str) -> dict[str, list[int]]:
        table = documents_table([Document("0", first), texts[1]])
        write_table(table_path(workspace, "documents", KEYS[0]), table)
        with connect_to_parquet(workspace) as connection:
            return {
                view: [n for (n,) in connection.execute(f"select distinct doc_id from {view}"
                                                        " order by all").fetchall()]
                for view in ("tokens", "top_tokens")
            }  # fmt: skip

    assert documents(make_text(0)) == {"tokens": [0, 1], "top_tokens": [0, 1]}
    assert documents("another text") == {"tokens": [1], "top_tokens": [1]}


def test_dbt_names_the_program_that_has_the_database_open(workspace):
    """In one line before it starts, whether that program reads or writes."""
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    duckdb.connect(str(workspace.database)).close()
    for read_only in (False, True):
        with opened_elsewhere(workspace.database, read_only) as pid:
            said = rf"{workspace.database}.*PID {pid}"
            with pytest.raises(Exception, match=said):
                plugin.update_connection_config(type("Credentials", (), {}), {})
    plugin.update_connection_config(type("Credentials", (), {}), {})


def test_the_database_opens_in_an_older_duckdb(built):
    with duckdb.connect(str(built.database), read_only=True) as connection:
        tags = connection.execute(
            "select tags['storage_version'] from duckdb_databases() where path is not null"
        ).fetchall()
    assert tags == [("v1.4.0+",)]
