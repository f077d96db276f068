"""Rows of a query on standard output or in a file: as a table, CSV, JSON, Parquet or Arrow."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from warehouse.errors import TokenmartError, visible
from warehouse.files import replacing

if TYPE_CHECKING:
    from rich.table import Table

    from warehouse.sql.session import Rows, Session, Value

Format = Literal["table", "csv", "json", "parquet", "arrow"]


def format_of(out: Path) -> Format:
    """The format that a file's ending asks for.

    Raises:
        TokenmartError: no such ending.
    """
    formats: dict[str, Format] = {
        ".csv": "csv", ".json": "json", ".parquet": "parquet", ".arrow": "arrow",
    }  # fmt: skip
    if out.suffix not in formats:
        raise TokenmartError(
            f"--out {out}: unknown ending {out.suffix!r}; use one of {', '.join(formats)}, or give "
            "--format",
            code="unknown-format",
            where="--out",
        )
    return formats[out.suffix]


def print_rows(
    session: Session, sql: str, parameters: Mapping[str, Value], limit: int, wide: bool
) -> None:
    """Print the rows of the last statement as a table, at most `limit` of them (0 = all).

    Args:
        wide: whether it may be wider than the terminal, with whole texts.
    """
    with session.stream(sql, parameters) as rows:
        if rows is None:
            return
        names = rows.schema.names
        found = list(islice(_tuples(rows), limit + 1 if limit else None))
    if names == ["explain_key", "explain_value"]:
        print(*(visible(text) for _, text in found), sep="\n")
        return
    print_table(names, found[:limit] if limit else found, wide)
    if limit and len(found) > limit:
        print(f"only {limit} rows shown; --limit 0 shows all, --out saves all", file=sys.stderr)


def print_table(names: list[str], rows: list[tuple[Any, ...]], wide: bool) -> None:
    """Print rows; numbers are aligned right, those with a fraction at six digits.

    Too wide a table gets headings on several lines, then shorter texts (…).
    """
    from rich.console import Console

    from warehouse.terminal import terminal_width

    width = (None if wide else terminal_width()) or 100_000
    console = Console(file=sys.stdout, width=width, highlight=False, color_system=None)
    table = _table(names, rows)
    if console.measure(table, options=console.options.update(width=100_000)).maximum > width:
        table = _table([name.replace("_", "_\n") for name in names], rows)
    console.print(table, crop=False)
    if not rows:
        print("(no rows)")


def _table(names: list[str], rows: list[tuple[Any, ...]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        is_number = all(isinstance(value, int | float | Decimal | None) for value in values)
        cells = max((len(_cell(value)) for value in values), default=0)
        table.add_column(
            Text(visible(name)),
            justify="right" if rows and is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=max(cells, *map(len, name.splitlines())) if is_number else min(cells, 12),
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _tuples(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for batch in rows.batches:
        columns = (column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns)
        yield from zip(*columns, strict=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return str(int(value))
    if isinstance(value, float | Decimal):
        return f"{float(value):.6g}"
    return visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def write_rows(
    session: Session,
    sql: str,
    parameters: Mapping[str, Value],
    format_: Format,
    out: Path | None,
) -> bool:
    """Write all rows of the last statement to a file that appears when it is complete.

    Args:
        out: None for standard output.

    Returns:
        Whether the statement has rows; otherwise there is no file.

    Raises:
        TokenmartError: see `Session.ask`.
        StorageError: the file can't be written.
    """
    write = {"csv": _csv, "json": _json, "parquet": _parquet, "arrow": _arrow}[format_]
    with session.stream(sql, parameters) as rows:
        if rows is None:
            return False
        if out is None:
            write(rows, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return True
        with replacing(out) as draft, draft.open("wb") as stream:
            write(rows, stream)
    return True


def _arrow(rows: Rows, stream: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(stream, rows.schema) as sink:
        for batch in rows.batches:
            sink.write_batch(batch)


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
