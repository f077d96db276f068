"""Rows of a query on standard output or in a file: as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from decimal import Decimal
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from warehouse.errors import visible
from warehouse.files import replacing
from warehouse.terminal import Column, print_columns, terminal_console

if TYPE_CHECKING:
    from warehouse.sql.session import Rows

Format = Literal["table", "csv", "json", "parquet"]
LONGEST_TEXT = 60
"""Characters of a text in a table, unless all are asked for."""


def print_rows(rows: Rows, limit: int, wide: bool) -> None:
    """Print rows as a table, at most `limit` of them (0 = all).

    Args:
        wide: whether texts are complete.
    """
    found = list(islice(_tuples(rows), limit + 1 if limit else None))
    if rows.schema.names == ["explain_key", "explain_value"]:
        print(*(visible(text) for _, text in found), sep="\n")
        return
    print_table(rows.schema.names, found[:limit] if limit else found, wide)
    if limit and len(found) > limit:
        print(f"only {limit} rows shown; --limit 0 shows all, --out saves all", file=sys.stderr)


def print_table(names: list[str], rows: list[tuple[Any, ...]], wide: bool = False) -> None:
    """Print rows; numbers are aligned right, those with a fraction at six digits."""
    columns = []
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        cells = [_cell(value, None if wide else LONGEST_TEXT) for value in values]
        is_text = any(not isinstance(value, int | float | Decimal | None) for value in values)
        columns.append(Column(visible(name), cells, text=is_text))
    print_columns(terminal_console(), columns, wide=wide)
    if not rows:
        print("(no rows)")


def _tuples(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for batch in rows.batches:
        columns = (column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns)
        yield from zip(*columns, strict=True)


def _cell(value: Any, most: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return str(int(value))
    if isinstance(value, float | Decimal):
        return f"{float(value):.6g}"
    text = visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def write_rows(rows: Rows, format_: Format, out: Path | None) -> None:
    """Write all rows to a file that appears when it is complete.

    Args:
        out: None for standard output.

    Raises:
        StorageError: the file can't be written.
    """
    write = {"csv": _csv, "json": _json, "parquet": _parquet}[format_]
    if out is None:
        write(rows, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with replacing(out) as draft, draft.open("wb") as stream:
        write(rows, stream)


def _parquet(rows: Rows, stream: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(stream, rows.schema, compression="zstd") as sink:
        for batch in rows.batches:
            sink.write_batch(batch)


def _csv(rows: Rows, stream: BinaryIO) -> None:
    text = TextIOWrapper(stream, encoding="utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(rows.schema.names)
    for row in _tuples(rows):
        lines.writerow(str(x).lower() if isinstance(x, bool) else x for x in row)
    text.flush()
    text.detach()


def _json(rows: Rows, stream: BinaryIO) -> None:
    """A list of objects; NaN and infinities, which JSON doesn't have, are null."""
    before = "["
    for batch in rows.batches:
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            text = json.dumps(_finite(row), ensure_ascii=False, default=str)
            stream.write(f"{before}\n{text}".encode())
            before = ","
    stream.write(b"\n]\n" if before == "," else b"[]\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
