"""Ad-hoc SQL: what can be asked, mistakes in one line, nothing is ever written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from sql_samples import ask, build_mart, failure, fill

from tokenmart import cli
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_for_queries, connect_read_only
from warehouse.sql.dataframes import cookbook, query
from warehouse.store.token_files import published_path

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
            with pytest.raises(
                StorageError,
                match=rf"open for writing in python\S* \(PID {writer.pid}\); try again when it is",
            ):
                connect(workspace)
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        monkeypatch.setattr("warehouse.sql.connection.PATIENCE_SECONDS", 30)
        connect_read_only(workspace).close()


# Mistakes


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select logprb from tokens", 'Candidate bindings: "logprob"'),
        ("select * from tokns", 'Did you mean "tokens"?'),
        ("select * from metric_values", "metric tables appear after `tokenmart dbt build`"),
        ("selct 1", "at `selct 1`"),
        ("select 1 +", "syntax error"),
        ("", "no statement given"),
        ("select $a", "--param a=…: the query needs a value for $a"),
        ("select 1/0::varchar::date", "sql: "),
    ],
)
def test_a_mistake_is_one_line(workspace: Workspace, query: str, message: str) -> None:
    code, output = failure(query)
    assert code == 1
    assert message in output
    assert output.count("\n") == 1
    assert output.startswith("error: ")


def test_parameters_are_checked(workspace: Workspace) -> None:
    assert (
        "the query has no $b; it has: a"
        in failure("select $a", "--param", "a=1", "--param", "b=1")[1]
    )
    assert failure("select 1", "--param", "novalue")[0] == 2
    assert failure("select 1", "--name", "cost")[0] == 2
    assert failure("--out", "rows.csv")[0] == 2
    assert "did you mean 'coverage'?" in failure("--name", "coverge")[1]
    assert "see tokenmart sql --list" in failure("--name", "../secret")[1]


def test_a_problem_that_is_not_there_is_a_mistake_with_the_closest(filled: Workspace) -> None:
    (filled.problems / "no4k.yml").touch()
    said = "error: problem 'minilng': no such problem here; did you mean 'minilong'?\n"
    recipe = ("--name", "coverage", "--param", "problem=minilng")
    assert failure(*recipe) == (1, said)
    own = "select count(*) from tokens where problem = $problem"
    assert failure(own, "--param", "problem=minilng") == (1, said)
    shell = CliRunner().invoke(cli, ["sql"], input=".cookbook coverage problem=minilng\n")
    assert said in shell.output
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


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{place}'",
        "export database '{place}'",
        "attach '{place}' as other",
        "install httpfs",
        "select 1; copy (select 1) to '{place}'",
        "drop view tokens",
        "insert into metric_values select * from metric_values",
        "create table tokenmart.main.x as select 1",
        "update metric_values set value = 0",
    ],
)
def test_nothing_is_written(filled: Workspace, tmp_path: Path, statement: str) -> None:
    build_mart(filled)
    place = tmp_path / "written"
    assert "read-only" in failure(statement.format(place=place))[1]
    assert not place.exists()
    assert len(ask("select * from metric_values")) == 2


def test_a_damaged_parquet_file_is_named(filled: Workspace) -> None:
    path = published_path(filled, "minilong", "good", "full")
    path.write_bytes(path.read_bytes()[:-20])
    code, output = failure("select sum(logprob) from tokens")
    assert code == 4
    warning, error = output.splitlines()
    assert warning.startswith(f"warning: {path}: damaged")
    assert error.startswith(f"error: {path}: damaged")
    assert "run tokenmart extract again" in output


def test_a_moved_checkout_is_one_line(filled: Workspace, tmp_path: Path) -> None:
    """Views that dbt built name their files; tables that it built are there all the same."""
    build_mart(filled)
    old = published_path(filled, "minilong", "good", "full")
    with duckdb.connect(str(filled.database)) as connection:
        connection.execute(f"create view staging.stg_tokens as from read_parquet(['{old}'])")
        connection.execute("create view moved as from staging.stg_tokens")
    moved = tmp_path / "moved"
    filled.root.rename(moved)
    environment = {**os.environ, "TOKENMART_HOME": str(moved)}
    database = moved / filled.database.relative_to(filled.root)

    def sql(query: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from tokenmart import main; main()", "sql", query]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    assert sql("select count(*) from tokens").stdout.split()[-1] == "32"
    assert sql("select count(*) from metric_values").stdout.split()[-1] == "2"
    for view in ("stg_tokens", "moved"):
        done = sql(f"from {view}")
        assert done.returncode == 4
        assert done.stderr == (
            f"error: {database}: its views read {old}, which is not in this warehouse: the "
            "checkout was moved, or TOKENMART_DATA was another when it was built; run "
            "`tokenmart dbt build`\n"
        )
    assert "Permission Error" in sql(f"from read_text('{tmp_path}/x')").stderr


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
    heavy = {"torch", "transformers", "dbt", "rich", "scipy", "sklearn", "pandas", "matplotlib"}
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
        assert done.stdout.split() == ["t,day", "2026-01-31", "23:30:00+00,2026-01-31"]


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
