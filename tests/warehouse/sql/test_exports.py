"""What ad-hoc SQL writes: tables, CSV, JSON, Parquet, Arrow, and rows in Python."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sql_samples import ask, build_mart, failure

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.dataframes import cookbook, query


def test_formats_agree(filled: Workspace, tmp_path: Path) -> None:
    query = "select position, -logprob as nll from tokens where model_id = 'good' order by all"
    expected = ask(query)
    assert len(expected) == 16
    for ending in ("json", "csv", "parquet", "arrow"):
        out = tmp_path / f"rows.{ending}"
        result = CliRunner().invoke(cli, ["sql", query, "--out", str(out)])
        assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "rows.json").read_text()) == expected
    for table in (
        pq.read_table(tmp_path / "rows.parquet"),
        pa.ipc.open_file(tmp_path / "rows.arrow").read_all(),
    ):
        assert table["position"].to_pylist() == [row["position"] for row in expected]
        assert table.schema.field("nll").type == pa.float32()
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["nll"]) for row in rows] == [row["nll"] for row in expected]


def test_a_table_is_cut_with_a_notice(filled: Workspace) -> None:
    result = CliRunner().invoke(cli, ["sql", "select position from tokens", "--limit", "3"])
    assert len(result.stdout.splitlines()) == 2 + 3
    assert result.stderr == "only 3 rows shown; --limit 0 shows all, --out saves all\n"
    whole = CliRunner().invoke(cli, ["sql", "select position from tokens", "--limit", "0"])
    assert len(whole.stdout.splitlines()) == 2 + 32
    assert whole.stderr == ""


def test_a_table_is_readable(workspace: Workspace) -> None:
    query = "select 'a\nb' as text, 1.5 as number, null as nothing union all select 'cc', 22, 1"
    shown = CliRunner().invoke(cli, ["sql", query]).stdout
    assert shown.splitlines() == [
        "text  number  nothing",
        "────  ──────  ───────",
        "a\\nb     1.5",
        "cc        22        1",
    ]


def test_no_rows_is_said(workspace: Workspace) -> None:
    shown = CliRunner().invoke(cli, ["sql", "select position from tokens"]).stdout
    assert shown.splitlines() == ["position", "────────", "(no rows)"]


def test_json_has_no_nan(workspace: Workspace) -> None:
    rows = ask("select 'nan'::double as a, ['inf'::double, 1] as b, date '2026-01-02' as c")
    assert rows == [{"a": None, "b": [None, 1.0], "c": "2026-01-02"}]


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_binary_formats_need_a_file(workspace: Workspace, format_: str) -> None:
    assert "give the file with --out" in failure("select 1", "--format", format_)[1]


def test_files_that_cannot_be_written(workspace: Workspace, tmp_path: Path) -> None:
    assert (
        "unknown ending '.xlsx'; use one of .csv, .json, .parquet, .arrow"
        in (failure("select 1", "--out", "rows.xlsx")[1])
    )
    for ending in ("csv", "parquet", "arrow"):
        place = tmp_path / "nowhere" / f"rows.{ending}"
        code, output = failure("select 1", "--out", str(place))
        assert (code, output.count("\n")) == (4, 1)
        assert output.startswith(f"error: --out {place}: can't be written (No such file")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "arrow"])
def test_a_file_appears_whole_or_not_at_all(filled: Workspace, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows.{ending}"
    out.write_text("the old one")
    query = "select error('late') from range(3)"
    assert "late" in failure(query, "--out", str(out))[1]
    assert out.read_text() == "the old one"
    assert list(tmp_path.glob("*.tmp")) == list(tmp_path.glob(".*.tmp")) == []


# Rows in Python

QUERY = "select model_id, position, nll from tokens where condition = $condition order by all"


def test_rows_in_python_agree_in_every_form(filled: Workspace) -> None:
    expected = ask(QUERY, "--param", "condition=full")
    assert len(expected) == 16
    arrow = query(QUERY, condition="full")
    assert isinstance(arrow, pa.Table)
    assert arrow.to_pylist() == expected
    assert query(QUERY, "pandas", condition="full").to_dict("records") == expected
    relation = query(QUERY, "relation", condition="full")
    assert relation.filter("position = 7").project("model_id").fetchall() == [("bad",), ("good",)]


def test_sums_of_integers_are_integers(filled: Workspace) -> None:
    frame = query("select sum(position) as s from tokens", "pandas")
    assert frame["s"].dtype == "int64"
    frame = query("select (sum(position) + 9e18::hugeint * 9) as big from tokens", "pandas")
    assert frame["big"].dtype == "object", "too large: exact decimals"


def test_rows_as_polars(filled: Workspace) -> None:
    pytest.importorskip("polars")
    frame = query(QUERY, "polars", condition="full")
    assert frame.to_dicts() == ask(QUERY, "--param", "condition=full")


def test_the_cookbook_in_python(filled: Workspace) -> None:
    table = cookbook("read_tokens", model="good", from_position=3, tokens=2)
    assert table["token"].to_pylist() == ["d", "e"]
    with pytest.raises(TokenmartError, match=r"the query has no \$modle; it has: problem"):
        cookbook("cost", modle="good")


def test_rows_in_python_leave_the_warehouse_to_dbt(filled: Workspace) -> None:
    build_mart(filled)
    relation = query("from metric_values", "relation")
    # Another process could not open the file for writing while anyone reads it.
    code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('drop table metric_values')"
    subprocess.run([sys.executable, "-c", code, str(filled.database)], check=True)
    assert len(relation.fetchall()) == 2


def test_what_python_is_told(filled: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenmartError, match=r"'numpy': unknown; use 'arrow', 'pandas'"):
        query("select 1", "numpy")  # type: ignore[arg-type]
    with pytest.raises(TokenmartError, match="COPY is not allowed"):
        query("copy (select 1) to 'x.csv'")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(TokenmartError, match="polars isn't installed; pip install polars"):
        query("select 1", "polars")


def test_sql_from_a_file_and_with_parameters(filled: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("create macro twice(x) as 2 * x;\nselect twice($n) as a, $t as b;")
    assert ask("--file", str(path), "--param", "n=21", "--param", "t=x=y") == [
        {"a": 42, "b": "x=y"}
    ]
    assert "can't be read" in failure("--file", str(tmp_path / "none.sql"))[1]
