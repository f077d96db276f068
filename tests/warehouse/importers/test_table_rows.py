"""Tables as text: read by their format's rules, whatever the first rows look like."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from warehouse.errors import TokenmartError
from warehouse.importers.table_rows import load_rows

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
    "all three line ends, blank lines": (
        "csv", "a,b\r\n1,2\n\n3,4\r5,6", [("1", "2"), ("3", "4"), ("5", "6")],
    ),
    "a byte-order mark, spaces": ("csv", "\ufeffa , b\n x , \u00a0y\n", [("x", "y")]),
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
    "a list": ("json", '[{"a": 1, "b": 2}]', [("1", "2")]),
    "lines that are called .json": ("json", '{"a": 1, "b": 2}\n', [("1", "2")]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_rows_equal_the_file(name: str, tmp_path: Path) -> None:
    suffix, content, rows = READ[name]
    names, found = loaded(tmp_path / f"t.{suffix}", content)
    assert names == ["a", "b"] and found == rows


def test_a_quote_after_many_rows_is_one(tmp_path: Path) -> None:
    """Beyond the rows that a reader would guess from, and beyond one batch."""
    names, found = loaded(tmp_path / "t.csv", f'a,b\n{MANY}{MANY}{MANY}"x,y",2\n#z,3\n')
    assert len(found) == 63_002 and found[-2:] == [("x,y", "2"), ("#z", "3")]
    lines = '{"a": 1}\n' * 50_001 + '{"a": 2, "late": 3}\n'
    names, found = loaded(tmp_path / "t.jsonl", lines)
    assert names == ["a", "late"] and found[-1] == ("2", "3") and found[0] == ("1", None)


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("csv", f"a,b\n{MANY}x,1,2\n", ", line 21002: 3 fields, expected 2 as in the first line"),
        ("csv", "a,b\nx,1\nWEIRD\n", ", line 3: 1 field, expected 2"),
        ("csv", "# made today\na,b\nx,1\n", ", line 2: 2 fields, expected 1 as in the first"),
        ("csv", 'a,b\n"x,1\ny,2\n', ", line 3: not CSV (unexpected end of data)"),
        ("csv", 'a,b\n"x"y,1\n', ", line 2: not CSV ("),
        ("csv", "a,a\n1,2\n", ": column 1 is called 'a' as another is; rename or remove it"),
        ("csv", ",a\n1,2\n", ": column 1 has no name; rename or remove it"),
        ("csv", "a,A\n1,2\n", ": columns 'a' and 'A' differ only in case; rename one"),
        ("csv", "a;b\n1;0,5\n", ": ';' separates its columns, expected ','"),
        ("csv", "a,b\ncafé,1\n".encode("latin-1"), ": can't be read (not UTF-8); save it as"),
        ("csv", "a,b\nx,1\n".encode("utf-16"), ": can't be read (not UTF-8)"),
        ("csv", "", ": is empty; name a file with rows"),
        ("csv.gz", "a,b\n", ": suffix '.gz' is not one of .csv"),
        ("jsonl", '{"a": 1, "a": 2}\n', ":1: field 'a' is given twice; keep one"),
        ("jsonl", '{"a": 1}\n{"a"', ":2: not JSON ("),
        ("jsonl", '{"a": 1},\n', ":1: not JSON (Extra data"),
        ("jsonl", '[{"a": 1}]\n', ":1: not an object; write one row a line"),
        ("jsonl", '{"a": "\\ud800"}\n', ":1: \\ud800 is half of a surrogate pair; write"),
        ("jsonl", '{"a":' * 100_000, ":1: not read as JSON ("),
        ("json", "[1]", ": a row is not an object"),
        ("parquet", "x", ": can't be read ("),
    ],
)
def test_a_broken_table_is_refused_with_its_line(
    suffix: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t.{suffix}"
    with pytest.raises(TokenmartError) as caught:
        loaded(path, content)
    said = caught.value.format_message()
    assert said.startswith(f"{path}{message}") and "\n" not in said, said
