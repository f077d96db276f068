"""Tables that users bring: read by their format's rules, whatever the first rows look like."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, Field
from refusal import refuses

from warehouse.errors import TokenmartError
from warehouse.table_file import load_rows, read_rows

Rows = list[tuple[str | None, ...]]


def loaded(path: Path, content: str | bytes) -> tuple[list[str], Rows]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with duckdb.connect() as connection:
        names = load_rows(connection, path, "t")
        rows = connection.execute("select * exclude (row_number) from t order by row_number")
        return names, rows.fetchall()


MANY = "".join(f"m{n},1\n" for n in range(21_000))

READ: dict[str, tuple[str, str | bytes, Rows]] = {
    "a number sign is no comment": ("csv", "a,b\n#1,2\nx,#\n", [("#1", "2"), ("x", "#")]),
    "an apostrophe is no quote": ("csv", "a,b\n'x','y'\n", [("'x'", "'y'")]),
    "a backslash escapes nothing": ("csv", "a,b\nx\\,y\n", [("x\\", "y")]),
    "quotes hold separators and line ends": ("csv", 'a,b\n"x,\n""y""",2\n', [('x,\n"y"', "2")]),
    "line ends of Windows, a blank line": (
        "csv", "a,b\r\n1,2\r\n\r\n3,4", [("1", "2"), ("3", "4")],
    ),
    "a byte-order mark; spaces stay": ("csv", "\ufeffa , b\n x ,y\n", [(" x ", "y")]),
    "an empty field is missing, NA is a name": ("csv", "a,b\nNA,\nnull,nan\n",
                                                [("NA", None), ("null", "nan")]),
    "tabs": ("tsv", "a\tb\nx,y\t2\n", [("x,y", "2")]),
    "dates and identifiers stay as they are": (
        "jsonl",
        '{"a": "2026-1-2", "b": "AAAAAAAA-0000-4000-8000-000000000000"}\n',
        [("2026-1-2", "AAAAAAAA-0000-4000-8000-000000000000")],
    ),
    "numbers beside texts": ("jsonl", '{"a": 1, "b": 0.5}\n{"a": "x", "b": "0.25"}\n',
                             [("1", "0.5"), ("x", "0.25")]),
    "a field that comes late, a null": ("jsonl", '{"a": 1}\n\n{"b": true, "a": null}\n',
                                        [("1", None), (None, "true")]),
    "whole numbers of any size": ("jsonl", '{"a": 12345678901234567890123, "b": 1e3}\n',
                                  [("12345678901234567890123", "1000.0")]),
    "any name of a key": ("jsonl", '{"a": {"x/y": 1}, "b": [1]}\n', [('{"x/y":1}', "[1]")]),
    "a list": ("json", '[{"a": 1, "b": 2}]', [("1", "2")]),
    "lines that are called .json": ("json", '{"a": 1, "b": 2}\n', [("1", "2")]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_rows_equal_the_file(name, tmp_path):
    suffix, content, rows = READ[name]
    names, found = loaded(tmp_path / f"[t]*.{suffix}", content)
    assert names == ["a", "b"] and found == rows


@pytest.mark.parametrize("key", ["a~b", "a/b", "$.a", "it's", 'a"b; drop table t; --', "0", "é b"])
def test_a_key_is_no_path(key, tmp_path):
    names, rows = loaded(tmp_path / "t.jsonl", json.dumps({key: "x"}))
    assert (names, rows) == ([key], [("x",)])


def test_a_quote_after_many_rows_is_one(tmp_path):
    """Beyond the rows that a reader would guess from, and beyond one batch."""
    names, found = loaded(tmp_path / "t.csv", f'a,b\n{MANY}{MANY}{MANY}"x,y",2\n#z,3\n')
    assert len(found) == 63_002 and found[-2:] == [("x,y", "2"), ("#z", "3")]
    lines = '{"a": 1}\n' * 50_001 + '{"a": 2, "late": 3}\n'
    names, found = loaded(tmp_path / "t.jsonl", lines)
    assert names == ["a", "late"] and found[-1] == ("2", "3") and found[0] == ("1", None)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_statistics_of_a_parquet_file_hide_no_nan(kind, tmp_path):
    """PyArrow's leave NaN out, and DuckDB answers filters over such a file by them."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([-1.0, math.nan, -2.0], kind)}), path)
    with duckdb.connect() as connection:
        load_rows(connection, path, "t")
        for query, count in {"isnan(a)": 1, "a <= 1": 2, "a > 1": 1, "not isfinite(a)": 1}.items():
            found = connection.execute(f"select count(*) from t where {query}").fetchone()
            assert found == (count,), query


UNREADABLE = [
    ("csv", f"a,b\n{MANY}x,1,2\n", "Line: 21002"),
    ("csv", "a,b\nx,1\nWEIRD\n", "Line: 3"),
    ("csv", "# made today\na,b\nx,1\n", "Line: 2"),
    ("csv", 'a,b\n"x,1\ny,2\n', "Line: 2"),
    ("csv", 'a,b\n"x"y,1\n', "Line: 2"),
    ("csv", "a;b\n1;0,5\n", "Line: 2"),
    ("csv", "a,b\ncafé,1\n".encode("latin-1"), "Line: 2"),
    ("csv", "a,b\nx,1\n".encode("utf-16"), ""),
    ("jsonl", '{"a": 1, "a": 2}\n', "line 1"),
    ("jsonl", '{"a": 1}\n{"a"', "line 3"),
    ("jsonl", '{"a": 1},\n', "line 2"),
    ("jsonl", '[{"a": 1}]\n', ""),
    ("jsonl", '{"a": "\\ud800"}\n', "line 2"),
    ("jsonl", '{"a":' * 100_000, "line 2"),
    ("json", "[1]", ""),
    ("parquet", "x", ""),
    ("csv.gz", "a,b\n1,2\n", ""),
    ("csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-12], ""),
    ("csv.gz", gzip.compress(b"a,b\n", mtime=0)[:10] + b"\xff" * 9, ""),
]
"""Suffix, content, and the line or row that the message has."""


@pytest.mark.parametrize(("suffix", "content", "line"), UNREADABLE)
def test_a_broken_table_is_refused_with_its_line(suffix, content, line, tmp_path):
    path = tmp_path / f"t.{suffix}"
    with pytest.raises(TokenmartError) as caught:
        loaded(path, content)
    assert caught.value.code == "unreadable-table" and caught.value.where.startswith(str(path))
    assert line in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("t.csv", "a,a\n1,2\n", "unreadable-table"),
        ("t.csv", ",a\n1,2\n", "unreadable-table"),
        ("t.csv", "a,A\n1,2\n", "unreadable-table"),
        ("t.csv", "", "unreadable-table"),
        ("t.xls", "a,b\n", "unknown-suffix"),
    ],
)
def test_a_table_without_names_is_refused(name, content, code, tmp_path):
    with refuses(code, str(tmp_path / name)):
        loaded(tmp_path / name, content)


class Point(BaseModel):
    name: str
    score: float = Field(ge=0)
    note: str | None = None


TWICE = {
    "csv": ["a,A\n1,2\n", "a,a \n1,2\n"],
    "tsv": ["a\tA\n1\t2\n"],
    "jsonl": ['{"a": 1, "A": 2}\n', '{"a": 1}\n{"A": 2}\n', '{"a_1": 1, "a": 2, "A": 3}\n'],
    "json": ['[{"a": 1, "A": 2}]'],
}


@pytest.mark.parametrize(
    ("ending", "text"), [(k, text) for k, all_ in TWICE.items() for text in all_]
)
def test_two_columns_of_one_name_are_refused(ending, text, tmp_path):
    """DuckDB ignores the case of columns, and would read the second as `A_1`."""
    path = tmp_path / f"t.{ending}"
    with refuses("unreadable-table", str(path)):
        loaded(path, text)
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "A"]), path)
    path = path.rename(tmp_path / "t.parquet")
    with refuses("unreadable-table", str(path)), duckdb.connect() as connection:
        load_rows(connection, path, "t")


def test_a_name_with_a_number_is_a_name(tmp_path):
    for ending, text in (("csv", "a,a_1\n1,2\n"), ("jsonl", '{"a": 1, "a_1": 2}\n')):
        assert loaded(tmp_path / f"t.{ending}", text) == (["a", "a_1"], [("1", "2")])


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_a_byte_order_mark_of_json_is_named(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    with pytest.raises(TokenmartError, match="byte-order mark"):
        loaded(path, '\ufeff{"a": 1}\n')


def test_a_compressed_table_is_read(tmp_path):
    for name, content in (("t.csv.gz", b"a,b\n#1,2\n"), ("t.jsonl.gz", b'{"a": "#1", "b": 2}\n')):
        assert loaded(tmp_path / name, gzip.compress(content)) == (["a", "b"], [("#1", "2")])


def test_rows_are_parsed_as_a_model(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,score,note\na,1,\nb,0.5,x\n")
    found = [(row.name, row.score, row.note) for row in read_rows(path, Point)]
    assert found == [("a", 1.0, None), ("b", 0.5, "x")]


@pytest.mark.parametrize(
    ("row", "code", "field"),
    [
        ("a,high,", "float-parsing", "score"),
        ("a,-1,", "greater-than-equal", "score"),
        ("a,,", "missing", "score"),
        (",1,", "missing", "name"),
    ],
)
def test_a_wrong_row_has_a_code_and_a_place(row, code, field, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"name,score,note\na,1,\n{row}\n")
    with refuses(code, f"{path}: row 2: {field}"):
        read_rows(path, Point)
