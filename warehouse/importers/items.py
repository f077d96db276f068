"""Tables of items: CSV, JSON, JSON lines or Parquet, read with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.importers.interface import Importer, Row
from warehouse.importers.table_mistakes import check_columns
from warehouse.importers.table_rows import load_rows

REQUIRED = ("task", "item", "score")
OPTIONAL = ("cluster", "context_tokens")
_TRUTHS = {"true": 1.0, "false": 0.0}


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
        with duckdb.connect() as connection:
            columns = load_rows(connection, path, "given")
            relation = connection.execute(
                "select * exclude (row_number) from given order by row_number"
            )
            rows = relation.fetchall()
        check_columns(path, columns, [*REQUIRED, *OPTIONAL], REQUIRED)
        for number, values in enumerate(rows, start=1):
            fields = dict(zip(columns, values, strict=True))
            score = fields["score"]
            if isinstance(score, str):
                fields["score"] = _TRUTHS.get(score.lower(), score)
            yield Row(f"{path}: row {number}", fields)
