"""Files in the data folder that differ from their ledger: found from their footers alone.

dbt also compares the bytes of each file with the hash in its footer. Rows are compared with those
of the ledger by `tokenmart data check`.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.remote import UnreachableError, footer
from warehouse.store.ledger import OtherVersionError, read_ledger
from warehouse.store.parquet_files import altered_files
from warehouse.store.schema import TOKENS, all_tables

ALTERED = "its data are not the bytes that were written"


@dataclass(frozen=True)
class Stranger:
    """A file that isn't counted, and why; `damaged`: one of ours that can't be relied on."""

    path: Path
    why: str
    damaged: bool

    def __str__(self) -> str:
        remedy = "see `tokenmart data check`" if self.damaged else "move it out of the data folder"
        return f"{self.path}: {self.why}; {remedy}"


def counted_files(data: Path, table: str, strangers: list[Stranger]) -> list[str]:
    """Source of a table's rows: a pattern, or the files if some of them are excluded.

    Files are patterns, too, as DuckDB takes every name for one: special characters in them are
    escaped.

    A damaged file stays: a question that reads it must fail, and others be answered.
    """
    out = {stranger.path for stranger in strangers if not stranger.damaged}
    own = sorted(_own_files(data, table))
    # DuckDB would walk a bucket folder by folder
    if out.isdisjoint(own) and isinstance(data, Path):
        return [f"{glob.escape(str(data / table))}/{_own_pattern(table)}"] if own else []
    return [glob.escape(str(path)) for path in own if path not in out]


def _own_files(data: Path, table: str) -> set[Path]:
    return set((data / table).glob(_own_pattern(table)))


def _own_pattern(table: str) -> str:
    found = all_tables()[table]
    return "/".join([*(f"{key}=*" for key in found.keys), found.files])


def last_change(data: Path, problem: str) -> float:
    """When a file of a problem's tables was last added, replaced or removed, in seconds since 1970.

    Read from the folders alone, of which large stores have fewer than files; 0 without any, and in
    a bucket, whose folders have no time.
    """
    if not isinstance(data, Path):
        return 0.0
    latest = 0.0
    for table in all_tables():
        for folder, _, _ in os.walk(data / table / f"problem={problem}"):
            with suppress(FileNotFoundError):  # removed meanwhile
                latest = max(latest, Path(folder).stat().st_mtime)
    return latest


def survey(data: Path, *, every_byte: bool = False) -> list[Stranger]:
    """Every Parquet file of the tables that is foreign or damaged, by path.

    Args:
        every_byte: read the files, too: flipped bits leave the footer as it is.

    Raises:
        OtherVersionError: another version of Tokenmart wrote a file.
    """
    found: list[Stranger] = []
    for table, described in all_tables().items():
        folder = data / table
        own = _own_files(data, table)
        for path in sorted(folder.glob("**/*.parquet")):
            if path not in own:
                found.append(Stranger(path, "not counted, it is not a file of Tokenmart", False))
            else:
                found += _wrong(path, described.schema)
        if every_byte:
            sound = own - {stranger.path for stranger in found}
            found += [Stranger(path, ALTERED, True) for path in altered_files(sound)]
    return found


def _wrong(path: Path, schema: pa.Schema) -> Iterator[Stranger]:
    try:
        found = pq.read_metadata(footer(path))
        columns = found.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        yield Stranger(path, f"damaged or no Parquet file ({first_line(error)})", True)
        return
    missing = sorted({field.name for field in schema if not field.nullable} - set(columns.names))
    more = sorted(set(columns.names) - set(schema.names))
    if missing or more:
        what = [f"lacks {', '.join(missing[:3])}"] * bool(missing)
        what += [f"has {', '.join(more[:3])}"] * bool(more)
        yield Stranger(path, f"not counted, wrong columns ({'; '.join(what)})", False)
        return
    other = [n for n in columns.names if columns.field(n).type != schema.field(n).type]
    if other:
        kind, wanted = columns.field(other[0]).type, schema.field(other[0]).type
        yield Stranger(path, f"not counted, column {other[0]} is {kind}, not {wanted}", False)
        return
    if schema is TOKENS:
        yield from _wrong_ledger(path, found)


def _wrong_ledger(path: Path, found: pq.FileMetaData) -> Iterator[Stranger]:
    try:
        ledger = read_ledger(path)
    except (OtherVersionError, UnreachableError):
        raise
    except StorageError:
        yield Stranger(path, "not counted, no ledger lists it (or its ledger is damaged)", False)
        return
    rows = sum(unit.rows for unit in ledger.units)
    if ledger.altered:
        yield Stranger(path, f"{len(ledger.altered)} records of its ledger were altered", True)
    if rows != found.num_rows:
        yield Stranger(path, f"{found.num_rows} rows, but its ledger has {rows}", True)
    keys = dict(part.split("=", 1) for part in path.parts[-4:-1])
    for unit in ledger.units:
        named = {"problem": unit.problem, "model_id": unit.model_id, "condition": unit.condition}
        if named != keys:
            said = ", ".join(f"{k} {v}" for k, v in named.items() if v != keys.get(k))
            yield Stranger(path, f"not counted, its ledger is of {json.dumps(said)}", False)
            return
