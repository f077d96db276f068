"""Key text of LongPPL, found elsewhere: character intervals per document and evaluator.

A table (CSV, JSON lines, Parquet) has `document_sha256`, which names the document, `char_start` and
`char_end`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination, StoringImporter
from warehouse.store.parquet_files import read_table
from warehouse.store.schema import KEY_INTERVALS, table_path
from warehouse.table_file import read_rows


class KeyInterval(BaseModel):
    """A row of the table."""

    document_sha256: str
    char_start: int
    char_end: int


class KeyIntervals(StoringImporter):
    """Character intervals of key text, of an evaluator that need not be a model of the problem."""

    kind = "key-intervals"
    of_other_models = True

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read an evaluator's intervals and store them; see `StoringImporter`."""
        source = table_path(to.workspace, "documents", to.problem)
        if not source.is_file():
            raise TokenmartError(
                f"{source}: no such file; run `tokenmart data fetch --problem "
                f"{to.argument or to.problem} --only documents` first",
                code="no-documents",
                where=source,
            )
        by_hash: dict[str, list[dict[str, Any]]] = {}  # several documents may have one text
        columns = ["doc_id", "sha256", "name", "characters"]
        for document in read_table(source, columns).to_pylist():
            by_hash.setdefault(document["sha256"], []).append(document)
        found: dict[tuple[int, int, int], str] = {}
        for path in files:
            for number, row in enumerate(read_rows(path, KeyInterval), start=1):
                same = by_hash.get(row.document_sha256, [])
                if not same or not 0 <= row.char_start < row.char_end <= same[0]["characters"]:
                    place = f"{path}: row {number}"
                    what = f"[{row.char_start}, {row.char_end}] is in no document of the problem"
                    raise TokenmartError(f"{place}: {what}", code="wrong-interval", where=place)
                # tokens that share a character repeat an interval
                found |= {(d["doc_id"], row.char_start, row.char_end): d["name"] for d in same}
        if not found:
            names = ", ".join(map(str, files))
            raise TokenmartError(f"{names}: contains no interval", code="no-rows", where=names)
        rows = [dict(zip(KEY_INTERVALS.names, key, strict=True)) for key in sorted(found)]
        path = table_path(to.workspace, "key_intervals", to.problem, to.model_id)
        to.store(path, pa.Table.from_pylist(rows, KEY_INTERVALS))
        return dict(Counter(found.values()))
