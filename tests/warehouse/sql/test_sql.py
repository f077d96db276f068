"""Ad-hoc SQL: what can be asked, mistakes in one line, nothing is ever written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import duckdb
import pytest
from click.testing import CliRunner
from refusal import refuses
from sql_samples import ask, build_mart, failure, opened_elsewhere

from tokenmart import cli
from warehouse.errors import StorageError
from warehouse.sql.connection import DatabaseBusyError, connect_for_queries, connect_read_only
from warehouse.sql.dataframes import query

# Tables and marts


def test_marts_and_tokens_meet_in_one_query(filled):
    build_mart(filled)
    rows = ask(
        "select v.value, count(*) as n from metric_values v join tokens t using (model_id)"
        " join stg_values using (model_id) group by all order by 1"
    )
    assert rows == [{"value": 1.5, "n": 16}, {"value": 7.5, "n": 16}]


def test_reading_marts(workspace):
    with pytest.raises(StorageError, match=r"no warehouse yet; run `tokenmart dbt build`"):
        connect_read_only(workspace)
    build_mart(workspace)
    with connect_read_only(workspace) as connection:
        assert connection.execute("select count(*) from stg_values").fetchall() == [(2,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("create table x as select 1")
    # "lock" in a path is no lock
    other = replace(workspace, database=workspace.root / "blocks" / "a.duckdb")
    other.database.parent.mkdir()
    other.database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError, match=r"can't be opened .* delete it and run"):
        connect_read_only(other)


def test_a_writer_is_named_and_tokens_are_read_meanwhile(filled):
    build_mart(filled)
    with opened_elsewhere(filled.database) as pid:
        for connect in (connect_read_only, connect_for_queries):
            with pytest.raises(DatabaseBusyError, match=str(pid)) as raised:
                connect(filled)
            assert raised.value.where == str(filled.database)
        assert query("select count(*) as n from tokens")["n"].to_pylist() == [32]
        with pytest.raises(DatabaseBusyError, match=str(pid)):
            query("from metric_values")
    assert query("from metric_values").num_rows == 2


def test_every_interrupt_stops_its_query(workspace):
    code = """
import os, signal, threading
from warehouse.paths import find_workspace
from warehouse.sql.session import Session

query = "select sum(sqrt(a.range) * b.range) from range(1000000000) a, range(1000) b"
with Session(find_workspace()) as session:
    for _ in range(4):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            with session.stream(query):
                pass
        except KeyboardInterrupt:
            print("stopped")
"""
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["stopped"] * 4


# Mistakes


@pytest.mark.parametrize(
    ("query_", "code", "where"),
    [
        ("select logprb from tokens", "sql-error", ""),
        ("select 1 as a,\n from from tokens", "sql-error", "line 2"),
        ("select * from metric_values", "sql-error", ""),
        ("selct 1", "sql-error", "line 1"),
        ("", "sql-empty", ""),
        ("/* nothing */", "sql-empty", ""),
        ("select $a", "sql-parameters", "a"),
    ],
)
def test_a_mistake_has_a_code_and_a_place(workspace, query_, code, where):
    with refuses(code, where):
        query(query_)
    assert failure(query_)[1].count("\n") == 1


def test_a_problem_named_like_a_number_stays_text(filled):
    assert ask("select typeof($problem) as t, typeof($n) as n", "--param", "problem=2024",
               "--param", "n=3") == [{"t": "VARCHAR", "n": "INTEGER"}]  # fmt: skip
    for text, value in (("-3", -3), ("0.5", 0.5), ("-2e-1", -0.2), ("0", 0)):
        assert ask("select $x as x", "--param", f"x={text}") == [{"x": value}]
    # Python's numbers, and names of documents
    for text in ("2024_01", "007", "nan", "1e", "٣"):
        assert ask("select $x as x", "--param", f"x={text}") == [{"x": text}]


def test_hours_are_of_no_place(filled):
    code = (
        "import sys; from tokenmart import main; sys.argv[1:] = ['sql', \"select timestamptz"
        " '2026-01-31 23:30:00+00' as t, (t)::date as day\", '--format', 'csv']; main()"
    )
    for zone in ("Asia/Kathmandu", "America/New_York"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["t,day", "2026-01-31", "23:30:00+00:00,2026-01-31"]


@pytest.mark.parametrize("name", ["select", "a b", "x'y\"z", "metrics", "tokens", "a.b"])
def test_a_database_has_any_other_name(filled, monkeypatch, name):
    build_mart(filled)
    monkeypatch.setenv(
        "TOKENMART_DATABASE", str(filled.database.rename(filled.root / f"{name}.duckdb"))
    )
    assert ask("select count(*) as n from metric_values") == [{"n": 2}]


@pytest.mark.parametrize(
    "arguments",
    [
        ("select 1", "--param", "novalue"),
        ("select 1", "--name", "cost"),
        ("select 1", "--out", "rows.xlsx"),
        ("select 1", "--limit", "-2"),
        ("select 1", "--json", "--format", "csv"),
        ("from downstream", "--json", "--targets"),
        ("select 1", "--format", "parquet"),
    ],
)
def test_options_that_do_not_go_together(workspace, arguments):
    assert failure(*arguments)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        (("--name", "coverge"), "unknown-query", "--name"),
        (("select $a", "--param", "a=1", "--param", "b=1"), "sql-parameters", "b"),
    ],
)
def test_refusals_have_a_code_and_a_place(workspace, arguments, code, where):
    with refuses(code, where):
        cli(["sql", *arguments], standalone_mode=False)


def test_what_the_project_keeps_is_not_written_over(workspace):
    place = "data/tokens/x.parquet"
    assert failure("select 1", "--out", str(workspace.root / place))[0] == 1
    assert not (workspace.root / place).exists()


def test_a_table_is_cut_at_the_limit(filled):
    for limit, rows in (("3", 3), ("0", 32)):
        done = CliRunner().invoke(cli, ["sql", "select position from tokens", "--limit", limit])
        assert len(done.stdout.split()) == 1 + rows
        assert bool(done.stderr) == (limit == "3")  # what is left out is said
