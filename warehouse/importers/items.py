"""Tables of items: CSV, JSON, JSON lines or Parquet, read with DuckDB."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.importers.interface import Importer, Row
from warehouse.importers.plain_table import OWN_COLUMNS
from warehouse.importers.table_mistakes import check_columns, refuse_no_table

REQUIRED = ("task", "item", "score")
OPTIONAL = ("cluster", "context_tokens")

_CSV = f"read_csv(?, {OWN_COLUMNS}, header = true, all_varchar = true)"
_JSON = f"read_json(?, {OWN_COLUMNS}, sample_size = -1)"
_READERS = {
    ".csv": _CSV,
    ".tsv": _CSV,
    ".json": _JSON,
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".parquet": f"read_parquet(?, {OWN_COLUMNS})",
}


class ItemsImporter(Importer):
    """Columns task, item and score, and optionally cluster and context_tokens."""

    kind = "items"

    def read(self, path: Path) -> Iterator[Row]:
        """The rows of the file, counted from 1 without a header.

        Raises:
            TokenmartError: another suffix, unreadable, or other columns.
        """
        if self.metric is not None:
            raise TokenmartError("--metric: a file of items has one score a row; leave it out")
        refuse_no_table(path)
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            raise TokenmartError(
                f"{path}: suffix {path.suffix!r} is not one of {', '.join(_READERS)}; rename or "
                "convert it"
            )
        with duckdb.connect() as connection:
            try:
                relation = connection.execute(f"select * from {reader}", [glob.escape(str(path))])
                columns = [column[0] for column in connection.description or []]
                rows = relation.fetchall()
            except duckdb.Error as error:
                reason = " ".join(str(error).split())[:200]
                raise TokenmartError(f"{path}: can't be read ({reason}); correct it") from error
        check_columns(path, columns, [*REQUIRED, *OPTIONAL], REQUIRED)
        for number, values in enumerate(rows, start=1):
            yield Row(f"{path}: row {number}", dict(zip(columns, values, strict=True)))
