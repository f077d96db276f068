"""Importers of scores that other programs computed: their interface, tables of items, the store."""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warehouse.errors import TokenmartError, visible
from warehouse.file_model import LARGEST_NUMBER
from warehouse.files import refuse_no_file, sha256_file
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOWNSTREAM, table_path
from warehouse.table_file import parse_row, plain_rows

IMPORT_KEY = b"tokenmart.import"
"""Parquet footer key: JSON with the format and the sha256 of the files imported."""


class ImportedRow(NamedTuple):
    """One row as read from a file: its place for messages, and its fields, not yet checked."""

    place: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Destination:
    """Whose files are imported: the checkout, names of problem and model as in its folders.

    With `force` they replace what is stored. `argument` is the value of --problem, `condition` the
    context condition that tokens are of.
    """

    workspace: Workspace
    problem: str
    model_id: str
    force: bool = False
    argument: str = ""
    condition: str = "full"


class StoringImporter(ABC):
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


class Importer(StoringImporter):
    """A format of target scores of one model."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[ImportedRow]:
        """The scored items of a file, with the fields of `ItemScore`.

        Raises:
            TokenmartError: it can't be read, or is not in this format.
        """

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Write the items of one model's files as its downstream scores.

        The same files once more change nothing.
        """
        refuse_missing_or_twice(files)
        path = table_path(to.workspace, "downstream", to.problem, to.model_id)
        items = _checked(row for file in files for row in self.read(file))
        if not items:
            names = ", ".join(map(str, files))
            raise TokenmartError(f"{names}: contains no scored item", code="no-rows", where=names)
        hashes = [[file.name, sha256_file(file)] for file in files]
        record = {"format": self.kind, "files": hashes}
        is_new = import_record(path) != record
        if path.is_file() and is_new and not to.force:
            raise TokenmartError(
                f"{path}: the model has other scores already; --force replaces them",
                code="scored-already",
                where=path,
            )
        for note in _other_items(path, items):
            click.echo(visible(f"note: {note}"), err=True)
        if is_new:
            table = _table(items).replace_schema_metadata({IMPORT_KEY: json.dumps(record)})
            write_table(path, table)
        return Counter(item.task for item in items)


class ItemsImporter(Importer):
    """Columns task, item and score, and optionally cluster and context_tokens."""

    kind = "items"

    def read(self, path: Path) -> Iterator[ImportedRow]:
        """The rows of the file, counted from 1 without a header."""
        return (ImportedRow(place, fields) for place, fields in plain_rows(path))


def _score(value: Any) -> Any:
    """Truth values as Python, pandas and JSON write them are scores."""
    return {"true": 1.0, "false": 0.0}.get(str(value).strip().lower(), value)


class ItemScore(BaseModel):
    """One scored item; items that share a context share a `cluster` (for standard errors)."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    task: str = Field(min_length=1)
    item: int = Field(ge=0, le=LARGEST_NUMBER)
    score: Annotated[float, BeforeValidator(_score)] = Field(allow_inf_nan=False)
    cluster: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    context_tokens: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)


def importer(kind: str) -> StoringImporter:
    """The importer of a format.

    Raises:
        TokenmartError: there is no such format.
    """
    importlib.import_module(f"{__package__}.key_intervals")
    known = kinds(StoringImporter, "importers")  # type: ignore[type-abstract]
    if kind not in known:
        raise TokenmartError(
            f"--format {kind}: no such format; formats: {', '.join(known)}",
            code="unknown-format",
            where=kind,
        )
    return known[kind]()


def _checked(rows: Iterable[ImportedRow]) -> list[ItemScore]:
    """The rows as items.

    Raises:
        TokenmartError: a row is wrong, or repeats an item (`item-twice`); with file and row.
    """
    items: list[ItemScore] = []
    seen: dict[tuple[str, int], str] = {}
    for row in rows:
        item = parse_row(row.fields, ItemScore, row.place)
        earlier = seen.setdefault((item.task, item.item), row.place)
        if earlier != row.place:
            raise TokenmartError(
                f"{row.place}: task {item.task!r}, item {item.item} was given before, at {earlier}",
                code="item-twice",
                where=row.place,
            )
        items.append(item)
    return items


def _table(items: list[ItemScore]) -> pa.Table:
    """The items in the DOWNSTREAM schema; one without a cluster is a cluster of its own."""
    fresh = count(1 + max((item.cluster for item in items if item.cluster is not None), default=-1))
    rows = [
        {**item.model_dump(), "cluster": next(fresh) if item.cluster is None else item.cluster}
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=DOWNSTREAM)


def refuse_missing_or_twice(files: Sequence[Path]) -> None:
    """Stop at a file that isn't there, or that is named twice.

    Raises:
        TokenmartError: one is.
    """
    seen: set[Path] = set()
    for file in files:
        refuse_no_file(file)
        if (found := file.resolve()) in seen:
            what = f"{file}: given twice; name it once"
            raise TokenmartError(what, code="file-twice", where=file)
        seen.add(found)


def _other_items(path: Path, items: Sequence[ItemScore]) -> Iterator[str]:
    """Tasks of which another model was scored on other items: the target compares both."""
    mine = {(each.task, each.item) for each in items}
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        rows = read_table(other, ["task", "item"]).to_pylist() if other != path else ()
        theirs = {(row["task"], row["item"]) for row in rows}
        shared = {task for task, _ in mine} & {task for task, _ in theirs}
        differing = {task for task, _ in mine ^ theirs} & shared
        if differing:
            yield f"{other.parent.name} was scored on other items of {', '.join(sorted(differing))}"


def import_record(path: Path) -> dict[str, Any] | None:
    """Source of an imported file of items; None if it was measured or can't be read."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    found: dict[str, Any] | None = json.loads(metadata.get(IMPORT_KEY, b"null"))
    return found
