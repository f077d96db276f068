"""What ad-hoc SQL writes: tables, CSV, JSON, Parquet, Arrow, and rows in Python."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from importlib.util import find_spec

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from refusal import refuses
from sql_samples import ask, build_mart, failure

from tokenmart import cli
from warehouse.sql.dataframes import query


def test_formats_agree(filled, tmp_path):
    query = "select position, -logprob as nll from tokens where model_id = 'good' order by all"
    expected = ask(query)
    assert len(expected) == 16
    for ending in ("json", "csv", "parquet"):
        out = tmp_path / f"rows.{ending}"
        result = CliRunner().invoke(cli, ["sql", query, "--out", str(out)])
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"written: {out}\n"
    assert json.loads((tmp_path / "rows.json").read_text()) == expected
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["position"].to_pylist() == [row["position"] for row in expected]
    assert table.schema.field("nll").type == pa.float32()
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [np.float32(row["nll"]) for row in rows] == [row["nll"] for row in expected]


def test_json_has_no_nan(workspace):
    rows = ask("select 'nan'::double as a, ['inf'::double, 1] as b, 'no \"NaN, -Infinity\\' as c")
    assert rows == [{"a": None, "b": [None, 1.0], "c": 'no "NaN, -Infinity\\'}]
    nested = ask(
        "select {'x': 'nan'::float, 'y z': [{'q': '-inf'::double}, null]} as s,"
        " null::double[] as l,"
        " map {'k': 'inf'::double, 'l': 2.0} as m, ['nan'::float]::float[1] as a, {'x': 1.5} as n,"
        " null::struct(x double) as missing, [[1.5, 'nan'::double], null] as deep"
    )
    assert nested == [
        {
            "s": {"x": None, "y z": [{"q": None}, None]},
            "l": None,
            "m": {"k": None, "l": 2.0},
            "a": [None],
            "n": {"x": 1.5},
            "missing": None,
            "deep": [[1.5, None], None],
        }
    ]


def test_json_keeps_numbers_numbers_and_names_as_they_are(workspace):
    rows = ask(
        "select 1.50::decimal(5, 2) as d, sum(i) as s, max(i)::hugeint as h, true as t, 'é' as e,"
        ' count(*) as "a ""b" from range(3) r(i)'
    )
    assert rows == [{"d": 1.5, "s": 3, "h": 2, "t": True, "e": "é", 'a "b': 3}]
    (moment,) = ask("select timestamp '2026-01-02 03:04:05' as w, date '2026-01-02' as d")
    assert moment == {"w": "2026-01-02 03:04:05", "d": "2026-01-02"}
    assert ask("select 1 as x where false") == []
    assert ask("select 1 as a, 2 as A, map(['k', 'K'], [3, 4]) as m, {'x': 5} as s") == [
        {"a": 1, "A": 2, "m": {"k": 3, "K": 4}, "s": {"x": 5}}
    ]
    assert ask("select map([date '2026-01-02'], [1]) as d, map([[1], [2]], [3, 4]) as l") == [
        {"d": {"2026-01-02": 1}, "l": [[[1], 3], [[2], 4]]}
    ]
    shown = CliRunner().invoke(cli, ["sql", "select 1 as a", "--json"])
    assert json.loads(shown.stdout) == [{"a": 1}]


def test_what_a_format_does_not_have_is_refused(workspace, tmp_path):
    """JSON has no two values of one name, Parquet no intervals; a CSV file has both."""
    for text, ending, code in (
        ("select 1 as a, 2 as a", "json", "sql-column-twice"),
        ("select interval 1 day as i", "parquet", "sql-type"),
        ("select union_value(k := 1) as u", "parquet", "sql-type"),
    ):
        words = ["sql", text, "--out", str(tmp_path / f"rows.{ending}")]
        with refuses(code):
            cli(words, standalone_mode=False)
        assert not (tmp_path / f"rows.{ending}").exists()
        words[-1] = str(tmp_path / "rows.csv")
        done = CliRunner().invoke(cli, [*words, "--force"])
        assert done.exit_code == 0, done.output


def test_statistics_of_an_export_hide_no_nan(workspace, tmp_path):
    out = str(tmp_path / "rows.parquet")
    query = "select * from (values ('nan'::float), (-1), (-2)) as t(x)"
    assert CliRunner().invoke(cli, ["sql", query, "--out", out]).exit_code == 0
    for where, n in (("isnan(x)", 1), ("x <= 1", 2)):
        counted = duckdb.execute(f"select count(*) from read_parquet($1) where {where}", [out])
        assert counted.fetchall() == [(n,)], where


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_pipe_whose_reader_goes_is_one_line(workspace, tmp_path, ending):
    out = tmp_path / f"rows.{ending}"
    os.mkfifo(out)
    reader = threading.Thread(target=lambda: out.open("rb").close())
    reader.start()
    code, output = failure(
        "select hash(i) as h from range(300000) t(i)", "--out", str(out), "--limit", "0"
    )
    reader.join()
    assert (code, output.count("\n")) == (4, 1)
    assert output.startswith(f"error: {out}: Broken pipe")
    assert out.is_fifo()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_pipe_with_a_reader_gets_every_row(workspace, tmp_path, ending):
    out = tmp_path / f"rows.{ending}"
    os.mkfifo(out)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(out.read_bytes()))
    reader.start()
    CliRunner().invoke(cli, ["sql", "from range(100000)", "--out", str(out)])
    reader.join()
    copied = tmp_path / f"copied.{ending}"
    copied.write_bytes(read[0])
    assert duckdb.sql(f"select count(*), max(range) from '{copied}'").fetchall() == [
        (100_000, 99_999)
    ]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_file_appears_whole_or_not_at_all(filled, tmp_path, ending):
    out = tmp_path / f"rows.{ending}"
    out.write_text("the old one")
    for rows in (3, 500_000):
        late = (
            f"select case when i > {rows} - 2 then error('late') end as e from range({rows}) t(i)"
        )
        code, said = failure(late, "--out", str(out), "--force")
        # of two threads' errors DuckDB may name the second, which was interrupted by the first
        errors = ("Invalid Input Error: late", "INTERRUPT Error: Interrupted!")
        assert (code, said) in [(1, f"error: sql: {error}\n") for error in errors]
    assert out.read_text() == "the old one"
    assert list(tmp_path.glob("*.tmp")) == list(tmp_path.glob(".*.tmp")) == []


# Rows in Python

QUERY = "select model_id, position, nll from tokens where condition = $condition order by all"


def test_rows_in_python_agree_in_every_form(filled):
    expected = ask(QUERY, "--param", "condition=full")
    assert len(expected) == 16
    arrow = query(QUERY, condition="full")
    assert isinstance(arrow, pa.Table)
    assert arrow.to_pylist() == expected
    assert query(QUERY, "pandas", condition="full").to_dict("records") == expected
    if find_spec("polars"):
        assert query(QUERY, "polars", condition="full").to_dicts() == expected
    relation = query(QUERY, "relation", condition="full")
    assert relation.filter("position = 7").project("model_id").fetchall() == [("bad",), ("good",)]


def test_sums_of_integers_are_integers(filled):
    frame = query("select sum(position) as s from tokens", "pandas")
    assert frame["s"].dtype == "int64"
    frame = query("select (sum(position) + 9e18::hugeint * 9) as big from tokens", "pandas")
    assert frame["big"].dtype == "object", "too large: exact decimals"


def test_rows_in_python_leave_the_warehouse_to_dbt(filled):
    build_mart(filled)
    relation = query("from metric_values", "relation")
    # Another process could not open the file for writing while anyone reads it.
    code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('drop table metric_values')"
    subprocess.run([sys.executable, "-c", code, str(filled.database)], check=True)
    assert len(relation.fetchall()) == 2


def test_sql_from_standard_input_and_with_parameters(filled):
    text = "create macro twice(x) as 2 * x;\nselect twice($n) as a, $t as b;"
    words = ["sql", "--format", "json", "--param", "n=21", "--param", "t=x=y"]
    done = CliRunner().invoke(cli, words, input=text)
    assert json.loads(done.stdout) == [{"a": 42, "b": "x=y"}], done.output


@pytest.mark.parametrize("format_", ["table", "csv", "json"])
def test_the_rows_are_those_of_the_last_statement(filled, format_):
    asked = "select i from range(3000000) as t(i); create macro f() as 7; select 1 as a; select f()"
    done = CliRunner().invoke(cli, ["sql", f"{asked} as b, true as c", "--format", format_])
    assert done.exit_code == 0, done.output
    assert "7" in done.stdout and "true" in done.stdout and "a" not in done.stdout
