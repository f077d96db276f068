"""Ad-hoc SQL: what can be asked, mistakes in one line, nothing is ever written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import duckdb
import pytest
from click.testing import CliRunner
from sql_samples import ask, build_mart, failure, fill

from tokenmart import cli
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import DatabaseBusyError, connect_for_queries, connect_read_only
from warehouse.sql.dataframes import cookbook, query

# Tables and marts


def test_views_hold_what_was_extracted(filled: Workspace) -> None:
    counts = {
        name: ask(f"select count(*) as n from {name}")[0]["n"]
        for name in ("tokens", "documents", "models", "units")
    }
    assert counts == {"tokens": 32, "documents": 1, "models": 2, "units": 9}


def test_views_have_the_same_columns_with_and_without_files(
    workspace: Workspace,
) -> None:
    def columns() -> dict[str, list[tuple[str, str]]]:
        with connect_for_queries(workspace) as connection:
            return {
                name: [row[:2] for row in connection.execute(f"describe {name}").fetchall()]
                for name in ("tokens", "documents", "models", "units")
            }

    before = columns()
    fill(workspace)
    assert columns() == before
    assert ("logprob", "FLOAT") in before["tokens"]


def test_marts_and_tokens_meet_in_one_query(filled: Workspace) -> None:
    build_mart(filled)
    rows = ask(
        "select v.value, count(*) as n from metric_values v join tokens t using (model_id)"
        " join stg_values using (model_id) group by all order by 1"
    )
    assert rows == [{"value": 1.5, "n": 16}, {"value": 7.5, "n": 16}]


def test_reading_marts(workspace: Workspace) -> None:
    with pytest.raises(StorageError, match=r"no warehouse yet; run `tokenmart dbt build`"):
        connect_read_only(workspace)
    build_mart(workspace)
    with connect_read_only(workspace) as connection:
        assert connection.execute("select count(*) from stg_values").fetchall() == [(2,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("create table x as select 1")
    workspace.database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError, match=r"can't be opened .* delete it and run"):
        connect_read_only(workspace)


def test_a_writer_is_waited_for_then_named(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_mart(workspace)
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True);"
        " sys.stdin.readline(); c.close()"
    )
    command = [sys.executable, "-c", code, str(workspace.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin and writer.stdout
        writer.stdout.readline()
        monkeypatch.setattr("warehouse.sql.connection.PATIENCE_SECONDS", 0.3)
        for connect in (connect_read_only, connect_for_queries):
            with pytest.raises(DatabaseBusyError, match=str(writer.pid)) as raised:
                connect(workspace)
            assert raised.value.where == str(workspace.database)
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        monkeypatch.setattr("warehouse.sql.connection.PATIENCE_SECONDS", 30)
        connect_read_only(workspace).close()


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
def test_a_mistake_has_a_code_and_a_place(
    workspace: Workspace, query_: str, code: str, where: str
) -> None:
    with pytest.raises(TokenmartError) as raised:
        query(query_)
    assert (raised.value.code, raised.value.where) == (code, where)
    assert failure(query_)[1].count("\n") == 1


def test_parameters_are_checked(workspace: Workspace) -> None:
    assert failure("select $a", "--param", "a=1", "--param", "b=1")[0] == 1
    assert failure("select 1", "--param", "novalue")[0] == 2
    assert failure("select 1", "--name", "cost")[0] == 2
    assert failure("--out", "rows.csv")[0] == 2
    assert failure("select 1", "--limit", "-2")[0] == 2
    assert "did you mean 'coverage'?" in failure("--name", "coverge")[1]


def test_a_problem_named_like_a_number_stays_text(filled: Workspace) -> None:
    (filled.problems / "2024.yml").touch()
    assert ask("select typeof($problem) as t, typeof($n) as n", "--param", "problem=2024",
               "--param", "n=3") == [{"t": "VARCHAR", "n": "INTEGER"}]  # fmt: skip


def test_a_problem_that_is_not_there_is_a_mistake_with_the_closest(filled: Workspace) -> None:
    (filled.problems / "no4k.yml").touch()
    said = "error: problem 'minilng': no such problem here; did you mean 'minilong'?\n"
    recipe = ("--name", "coverage", "--param", "problem=minilng")
    assert failure(*recipe) == (1, said)
    own = "select count(*) from tokens where problem = $problem"
    assert failure(own, "--param", "problem=minilng") == (1, said)
    for ask_in_python in (
        lambda: query(own, problem="minilng"),
        lambda: cookbook("cost", problem="minilng"),
    ):
        with pytest.raises(TokenmartError, match="did you mean 'minilong'"):
            ask_in_python()
    assert "known: minilong, no4k" in failure(own, "--param", "problem=12")[1]
    # a problem file is enough: nothing has been extracted yet
    assert ask(own, "--param", "problem=no4k") == [{"count_star()": 0}]
    assert ask(own, "--param", "problem=minilong") == [{"count_star()": 32}]


def test_it_starts_without_heavy_packages(filled: Workspace) -> None:
    """A time would depend on the machine; what is loaded doesn't."""
    build_mart(filled)
    code = (
        "import sys; from tokenmart import cli\n"
        "cli(['sql', 'from metric_values join models using (model_id)'], standalone_mode=False)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heavy = {"torch", "transformers", "dbt", "scipy", "sklearn", "pandas", "matplotlib"}
    assert not heavy & set(done.stdout.splitlines()[-1].split())


def test_hours_are_of_no_place(filled: Workspace) -> None:
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


@pytest.mark.parametrize("name", ["memory", "Main", "temp.x", "system", ""])
def test_a_database_has_no_name_of_duckdbs_own(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TOKENMART_DATABASE", str(filled.root / f"{name}.duckdb"))
    code, output = failure("select 1")
    assert code == 1 and "DuckDB has a database of this name" in output


@pytest.mark.parametrize("name", ["select", "a b", "x'y\"z", "metrics", "tokens", "a.b"])
def test_a_database_has_any_other_name(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    build_mart(filled)
    monkeypatch.setenv(
        "TOKENMART_DATABASE", str(filled.database.rename(filled.root / f"{name}.duckdb"))
    )
    assert ask("select count(*) as n from metric_values") == [{"n": 2}]


def test_the_memory_limit_is_duckdbs(filled: Workspace) -> None:
    query = "select current_setting('memory_limit') as limit"
    done = CliRunner().invoke(cli, ["sql", query, "--memory", "100MiB", "--format", "json"])
    assert json.loads(done.stdout) == [{"limit": "100.0 MiB"}], done.output
