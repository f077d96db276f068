"""Importers of what other programs computed: scores of items, and LongPPL's key text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar

import click
import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warehouse.errors import TokenmartError, visible
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOWNSTREAM, KEY_INTERVALS, table_path
from warehouse.table_file import parse_row, plain_rows, read_rows

Whole = Annotated[int, Field(ge=0, lt=2**31)]


@dataclass(frozen=True)
class Destination:
    """Whose files are imported: the checkout, names of problem and model as in its folders.

    With `force` they replace what is stored. `argument` is the value of --problem, `condition` the
    context condition that tokens are of, `is_audited` whether some of them are recomputed first.
    """

    workspace: Workspace
    problem: str
    model_id: str
    force: bool = False
    argument: str = ""
    condition: str = "full"
    is_audited: bool = True

    def store(self, path: Path, table: pa.Table) -> None:
        """Write the imported rows; the same rows once more change nothing.

        Raises:
            TokenmartError: other rows are stored (`stored-already`), and without `force`.
            StorageError: the disk is full or the folder can't be written.
        """
        if path.is_file():
            if read_table(path).equals(table):
                return
            if not self.force:
                raise TokenmartError(
                    f"{path}: other rows of {self.model_id} are stored; --force replaces them",
                    code="stored-already",
                    where=path,
                )
        write_table(path, table)


class Importer(ABC):
    """A format of files that other programs wrote; it stores what it reads. `kind` names it.

    `of_other_models`: the model that the files are of need not be one of the problem. `build`: the
    command that builds what is computed from the stored rows. `has_conditions`: the rows are of a
    context condition. `counts`: what is counted, and by what.
    """

    kind: ClassVar[str]
    build: ClassVar[str] = "tokenmart dbt run"
    of_other_models: ClassVar[bool] = False
    has_conditions: ClassVar[bool] = False
    counts: ClassVar[tuple[str, str]] = ("item", "task")

    @abstractmethod
    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read one model's files and store them; every row is checked before anything is written.

        Returns:
            Items by task.

        Raises:
            TokenmartError: a file or a row is wrong.
            StorageError: the disk is full or the folder can't be written.
        """


class ItemsImporter(Importer):
    """Target scores of one model: columns task, item, score, and cluster and context_tokens if any.

    Importers of other formats of scores override `read`.
    """

    kind = "items"

    def read(self, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        """The scored items of a file: the place of each for messages, the fields of `ItemScore`.

        Raises:
            TokenmartError: it can't be read, or is not in this format.
        """
        return plain_rows(path)

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Write the items of one model's files as its downstream scores."""
        path = table_path(to.workspace, "downstream", to.problem, to.model_id)
        items = _checked(row for file in files for row in self.read(file))
        if not items:
            names = ", ".join(map(str, files))
            raise TokenmartError(f"{names}: contains no scored item", code="no-rows", where=names)
        to.store(path, _table(items))
        for note in _other_items(path, items):
            click.echo(visible(f"note: {note}"), err=True)
        return Counter(item.task for item in items)


def _score(value: Any) -> Any:
    """Truth values as Python, pandas and JSON write them are scores."""
    return {"true": 1.0, "false": 0.0}.get(str(value).strip().lower(), value)


class ItemScore(BaseModel):
    """One scored item; items that share a context share a `cluster` (for standard errors)."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    task: str = Field(min_length=1)
    item: Whole
    score: Annotated[float, BeforeValidator(_score)] = Field(allow_inf_nan=False)
    cluster: Whole | None = None
    context_tokens: Whole | None = None


class KeyInterval(BaseModel):
    """Characters of a document, which its hash names, that are key text of LongPPL."""

    document_sha256: str
    char_start: int
    char_end: int


class KeyIntervals(Importer):
    """Character intervals of key text, of an evaluator that need not be a model of the problem."""

    kind = "key-intervals"
    of_other_models = True

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read an evaluator's intervals and store them; see `Importer`."""
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
        name_of: dict[tuple[int, int, int], str] = {}
        for path in files:
            for number, row in enumerate(read_rows(path, KeyInterval), start=1):
                same = by_hash.get(row.document_sha256, [])
                if not same or not 0 <= row.char_start < row.char_end <= same[0]["characters"]:
                    place = f"{path}: row {number}"
                    what = f"[{row.char_start}, {row.char_end}] is in no document of the problem"
                    raise TokenmartError(f"{place}: {what}", code="wrong-interval", where=place)
                # tokens that share a character repeat an interval
                name_of |= {(d["doc_id"], row.char_start, row.char_end): d["name"] for d in same}
        if not name_of:
            names = ", ".join(map(str, files))
            raise TokenmartError(f"{names}: contains no interval", code="no-rows", where=names)
        rows = [dict(zip(KEY_INTERVALS.names, key, strict=True)) for key in sorted(name_of)]
        path = table_path(to.workspace, "key_intervals", to.problem, to.model_id)
        to.store(path, pa.Table.from_pylist(rows, KEY_INTERVALS))
        return dict(Counter(name_of.values()))


def importer(kind: str) -> Importer:
    """The importer of a format.

    Raises:
        TokenmartError: there is no such format.
    """
    known: dict[str, type[Importer]] = kinds("importers", (ItemsImporter, KeyIntervals))
    if kind not in known:
        raise TokenmartError(
            f"--format {kind}: no such format; formats: {', '.join(known)}",
            code="unknown-format",
            where=kind,
        )
    return known[kind]()


def _checked(rows: Iterable[tuple[str, dict[str, Any]]]) -> list[ItemScore]:
    """The rows as items.

    Raises:
        TokenmartError: a row is wrong, or repeats an item (`item-twice`); with file and row.
    """
    items: list[ItemScore] = []
    seen: set[tuple[str, int]] = set()
    for place, fields in rows:
        item = parse_row(fields, ItemScore, place)
        if (item.task, item.item) in seen:
            what = f"{place}: task {item.task!r}, item {item.item} was given before"
            raise TokenmartError(what, code="item-twice", where=place)
        seen.add((item.task, item.item))
        items.append(item)
    return items


def _table(items: list[ItemScore]) -> pa.Table:
    """The items in the DOWNSTREAM schema; one without a cluster is a cluster of its own."""
    given = {item.cluster for item in items if item.cluster is not None}
    after = (number % 2**31 for number in count(1 + max(given, default=-1)))
    fresh = (number for number in after if number not in given)
    rows = [
        {**item.model_dump(), "cluster": next(fresh) if item.cluster is None else item.cluster}
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=DOWNSTREAM)


def _other_items(path: Path, items: Sequence[ItemScore]) -> Iterator[str]:
    """Tasks of which another model was scored on other items: the target compares both."""
    mine = {(each.task, each.item) for each in items}
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        theirs = {tuple(row.values()) for row in read_table(other, ["task", "item"]).to_pylist()}
        shared = {task for task, _ in mine} & {task for task, _ in theirs}
        differing = {task for task, _ in mine ^ theirs} & shared
        if differing:
            yield f"{other.parent.name} was scored on other items of {', '.join(sorted(differing))}"
