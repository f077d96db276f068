"""What ad-hoc SQL writes: tables, CSV, JSON, Parquet, Arrow, and rows in Python."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
from click.testing import CliRunner
from sql_samples import ask, failure

from tokenmart import cli
from warehouse.paths import Workspace


def test_formats_agree(filled: Workspace, tmp_path: Path) -> None:
    query = "select position, -logprob as nll from tokens where model_id = 'good' order by all"
    expected = ask(query)
    assert len(expected) == 16
    for ending in ("json", "csv", "parquet"):
        out = tmp_path / f"rows.{ending}"
        result = CliRunner().invoke(cli, ["sql", query, "--out", str(out)])
        assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "rows.json").read_text()) == expected
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["position"] for row in table] == [row["position"] for row in expected]
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


def test_parquet_needs_a_file(workspace: Workspace) -> None:
    assert "give the file with --out" in failure("select 1", "--format", "parquet")[1]


def test_sql_from_a_file_and_with_parameters(filled: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("create macro twice(x) as 2 * x;\nselect twice($n) as a, $t as b;")
    assert ask("--file", str(path), "--param", "n=21", "--param", "t=x=y") == [
        {"a": 42, "b": "x=y"}
    ]
    assert "can't be read" in failure("--file", str(tmp_path / "none.sql"))[1]
