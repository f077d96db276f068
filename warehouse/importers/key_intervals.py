"""Key text of LongPPL, found elsewhere: character intervals per document and evaluator.

Two forms. A plain table (CSV, JSON lines, Parquet) has `document_sha256`, `char_start` and
`char_end`; the hash names the document. LongPPL's own files, `slice_<document>.txt`, have
`[start, end];[start, end];…` and no hash: `<document>` is the document's number, and the intervals
must fit its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination, StoringImporter
from warehouse.importers.plain_table import read_plain
from warehouse.paths import Workspace
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import KEY_INTERVALS
from warehouse.text_file import read_text

COLUMNS = {"document_sha256": "varchar", "char_start": "bigint", "char_end": "bigint"}
SLICE = re.compile(r"slice_(\d+)\.txt")
INTERVAL = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\]")

LEAST_EDGES = 0.5
"""Share of intervals that must begin where a word does. Tokens do mostly; in another text, one
character in five or six."""

ENOUGH = 10
"""With fewer intervals nothing can be concluded from their edges."""


@dataclass(frozen=True)
class _Interval:
    """One interval and its place in the file, for messages."""

    place: str
    doc_id: int
    start: int
    end: int


class KeyIntervals(StoringImporter):
    """Character intervals of key text, of an evaluator that need not be a model of the problem."""

    kind = "key-intervals"
    of_other_models = True

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read an evaluator's intervals and store them; see `StoringImporter`."""
        documents = _documents(to.workspace, to.problem)
        found: list[_Interval] = []
        for path in files:
            named = SLICE.fullmatch(path.name)
            of_file = list(
                _of_slice(path, int(named[1]), documents) if named else _of_table(path, documents)
            )
            if named:
                _refuse_other_edges(path, documents[int(named[1])], of_file)
            found += of_file
        rows = [
            {"doc_id": each.doc_id, "char_start": each.start, "char_end": each.end}
            for each in _in_order(found, documents)
        ]
        stored = to.workspace.key_intervals / f"problem={to.problem}"
        path = stored / f"evaluator={to.model_id}" / "intervals.parquet"
        table = pa.Table.from_pylist(rows, KEY_INTERVALS)
        if path.is_file() and not to.force:
            before = pq.read_table(path, partitioning=None)
            if not before.equals(table):
                raise TokenmartError(
                    f"{path}: other intervals of {to.model_id} are stored; --force replaces them"
                )
        write_table(path, table)
        names = {row["doc_id"]: str(row["name"]) for row in documents}
        return {
            names[doc_id]: sum(row["doc_id"] == doc_id for row in rows)
            for doc_id in sorted({row["doc_id"] for row in rows})
        }


def _documents(workspace: Workspace, problem: str) -> list[dict[str, Any]]:
    """The problem's documents by number, with their texts."""
    path = workspace.documents / f"problem={problem}" / "documents.parquet"
    if not path.is_file():
        raise TokenmartError(
            f"{path}: no such file; run `tokenmart data fetch --problem {problem} --only "
            "documents`: intervals are checked against the texts"
        )
    rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    return sorted(rows, key=lambda row: int(row["doc_id"]))


def _of_table(path: Path, documents: list[dict[str, Any]]) -> Iterator[_Interval]:
    """The rows of a plain table."""
    by_hash: dict[str, list[int]] = {}  # several documents may have one text
    for row in documents:
        by_hash.setdefault(str(row["sha256"]), []).append(int(row["doc_id"]))
    with duckdb.connect() as connection:
        read_plain(connection, path, COLUMNS, tuple(COLUMNS))
        rows = connection.execute(
            f"select row_number, {', '.join(COLUMNS)} from plain order by row_number"
        ).fetchall()
    for number, sha256, start, end in rows:
        place = f"{path}: row {number}"
        if sha256 not in by_hash:
            raise TokenmartError(
                f"{place}: document_sha256 is {sha256}, which is no document of the problem; the "
                'intervals are of other texts (tokenmart sql "select name, sha256 from documents")'
            )
        if start is None or end is None:
            raise TokenmartError(f"{place}: char_start or char_end is missing; complete the row")
        for doc_id in by_hash[sha256]:
            yield _Interval(place, doc_id, start, end)


def _of_slice(path: Path, number: int, documents: list[dict[str, Any]]) -> Iterator[_Interval]:
    """The intervals of one of LongPPL's files."""
    if number >= len(documents):
        raise TokenmartError(
            f"{path}: document {number}, and the problem has {len(documents)} (0 to "
            f"{len(documents) - 1}); leave the file out, or choose the problem it belongs to"
        )
    for position, part in enumerate(filter(None, map(str.strip, read_text(path).split(";")))):
        found = INTERVAL.fullmatch(part)
        if found is None:
            raise TokenmartError(
                f"{path}: interval {position + 1} is {part[:40]!r}; expected [start, end]"
            )
        place = f"{path}: interval {position + 1}"
        yield _Interval(place, number, int(found[1]), int(found[2]))


def _in_order(found: list[_Interval], documents: list[dict[str, Any]]) -> list[_Interval]:
    """The intervals by document and start, each once: tokens that share a character repeat one."""
    kept: dict[tuple[int, int, int], _Interval] = {}
    for each in found:
        document = documents[each.doc_id]
        if not 0 <= each.start < each.end <= document["characters"]:
            raise TokenmartError(
                f"{each.place}: [{each.start}, {each.end}] doesn't lie in {document['name']} "
                f"({document['characters']:,} characters); the intervals are of another text"
            )
        kept.setdefault((each.doc_id, each.start, each.end), each)
    return [each for _, each in sorted(kept.items())]


def _refuse_other_edges(
    path: Path, document: dict[str, Any], intervals: Sequence[_Interval]
) -> None:
    """Refuse intervals that begin anywhere in words: they are of another text."""
    text = str(document["text"])
    inside = [each for each in intervals if each.end <= len(text)]
    at_edge = sum(_is_edge(text, each.start) for each in inside)
    if len(inside) >= ENOUGH and at_edge < LEAST_EDGES * len(inside):
        raise TokenmartError(
            f"{path}: {at_edge} of {len(inside)} intervals begin where a word of "
            f"{document['name']} does, expected at least {LEAST_EDGES:.0%}; the intervals are of "
            "another text"
        )


def _is_edge(text: str, start: int) -> bool:
    """Whether a word or a mark begins at a character."""
    return start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
