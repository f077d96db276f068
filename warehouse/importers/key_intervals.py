"""Key text of LongPPL, found elsewhere: character intervals per document and evaluator.

Two forms. A plain table (CSV, JSON lines, Parquet) has `document_sha256`, `char_start` and
`char_end`; the hash names the document. LongPPL's own files, `slice_<document>.txt`, have
`[start, end];[start, end];…` and no hash: `<document>` is the document's number, and the intervals
must fit its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import BaseModel

from warehouse.errors import TokenmartError
from warehouse.files import read_text
from warehouse.importers.importer import (
    Destination,
    StoringImporter,
    refuse_missing_or_twice,
)
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import KEY_INTERVALS, table_path
from warehouse.table_file import read_rows

SLICE = re.compile(r"slice_(\d+)\.txt")
INTERVAL = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\]")

LEAST_EDGES = 0.5
"""Share of intervals that must begin where a word does. Tokens do mostly; in another text, one
character in five or six."""

ENOUGH = 10
"""With fewer intervals nothing can be concluded from their edges."""


class KeyInterval(BaseModel):
    """A row of a plain table."""

    document_sha256: str
    char_start: int
    char_end: int


class _Interval(NamedTuple):
    """Document's number, first character, character behind the last, and the place in the file."""

    doc_id: int
    start: int
    end: int
    place: str


class KeyIntervals(StoringImporter):
    """Character intervals of key text, of an evaluator that need not be a model of the problem."""

    kind = "key-intervals"
    of_other_models = True

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read an evaluator's intervals and store them; see `StoringImporter`."""
        refuse_missing_or_twice(files)
        documents = _documents(to)
        found: list[_Interval] = []
        for path in files:
            named = SLICE.fullmatch(path.name)
            found += (
                _of_slice(path, int(named[1]), documents) if named else _of_table(path, documents)
            )
        if not found:
            names = ", ".join(map(str, files))
            raise TokenmartError(f"{names}: contains no interval", code="no-rows", where=names)
        for each in found:
            document = documents[each.doc_id]
            if not 0 <= each.start < each.end <= document["characters"]:
                what = f"[{each.start}, {each.end}] isn't in {document['name']}"
                raise _refused(each.place, f"{what} ({document['characters']:,} characters)")
        # tokens that share a character repeat an interval
        kept = sorted({(each.doc_id, each.start, each.end) for each in found})
        rows = [dict(zip(("doc_id", "char_start", "char_end"), each, strict=True)) for each in kept]
        path = table_path(to.workspace, "key_intervals", to.problem, to.model_id)
        table = pa.Table.from_pylist(rows, KEY_INTERVALS)
        if path.is_file() and not to.force and not read_table(path).equals(table):
            raise TokenmartError(
                f"{path}: other intervals of {to.model_id} are stored; --force replaces them",
                code="stored-already",
                where=path,
            )
        write_table(path, table)
        return dict(Counter(str(documents[doc_id]["name"]) for doc_id, _, _ in kept))


def _refused(place: str, what: str) -> TokenmartError:
    return TokenmartError(f"{place}: {what}", code="wrong-interval", where=place)


def _documents(to: Destination) -> list[dict[str, Any]]:
    """The problem's documents by number, with their texts."""
    path = table_path(to.workspace, "documents", to.problem)
    if not path.is_file():
        raise TokenmartError(
            f"{path}: no such file; run `tokenmart data fetch --problem "
            f"{to.argument or to.problem} --only documents` first",
            code="no-documents",
            where=path,
        )
    rows: list[dict[str, Any]] = read_table(path).to_pylist()
    return sorted(rows, key=lambda row: int(row["doc_id"]))


def _of_table(path: Path, documents: list[dict[str, Any]]) -> Iterator[_Interval]:
    """The rows of a plain table."""
    by_hash: dict[str, list[int]] = {}  # several documents may have one text
    for row in documents:
        by_hash.setdefault(str(row["sha256"]), []).append(int(row["doc_id"]))
    for number, interval in enumerate(read_rows(path, KeyInterval), start=1):
        place = f"{path}: row {number}"
        if interval.document_sha256 not in by_hash:
            raise _refused(place, f"{interval.document_sha256} is no document of the problem")
        for doc_id in by_hash[interval.document_sha256]:
            yield _Interval(doc_id, interval.char_start, interval.char_end, place)


def _of_slice(path: Path, number: int, documents: list[dict[str, Any]]) -> list[_Interval]:
    """The intervals of one of LongPPL's files, which must begin where words of the document do."""
    if number >= len(documents):
        raise _refused(str(path), f"document {number}, of {len(documents)} from 0 on")
    found = []
    for position, part in enumerate(filter(None, map(str.strip, read_text(path).split(";")))):
        place, interval = f"{path}: interval {position + 1}", INTERVAL.fullmatch(part)
        if interval is None:
            raise _refused(place, f"{part[:40]!r}, expected [start, end]")
        found.append(_Interval(number, int(interval[1]), int(interval[2]), place))
    text = str(documents[number]["text"])
    inside = [each for each in found if each.end <= len(text)]
    at_edge = sum(_is_edge(text, each.start) for each in inside)
    if len(inside) >= ENOUGH and at_edge < LEAST_EDGES * len(inside):
        what = f"{at_edge} of {len(inside)} intervals begin with a word of document {number}"
        raise _refused(str(path), f"{what}; they are of another text")
    return found


def _is_edge(text: str, start: int) -> bool:
    """Whether a word or a mark begins at a character."""
    return start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
