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
from typing import Annotated, Any, ClassVar

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warehouse.errors import TokenmartError, did_you_mean, visible
from warehouse.file_model import LARGEST_NUMBER
from warehouse.files import sha256_file
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOWNSTREAM
from warehouse.table_file import parse_row, read_rows
from warehouse.text_file import refuse_no_file

IMPORT_KEY = b"tokenmart.import"
"""Parquet footer key: JSON with the format, the metric and the sha256 of the files imported."""


@dataclass(frozen=True)
class Row:
    """One scored item as read from a file: its place, and its fields, not yet checked.

    `place` names file and line for messages. `fields` has `task`, `item` (a whole number) and
    `score`, and may have the other columns of the `downstream` table.
    """

    place: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Destination:
    """Whose files are imported: the checkout, names of problem and model as in its folders.

    With `force` they replace what is stored.
    """

    workspace: Workspace
    problem: str
    model_id: str
    force: bool = False


class StoringImporter(ABC):
    """A format of files that other programs wrote; it stores what it reads. `kind` names it.

    `of_other_models`: the model that the files are of need not be one of the problem. `build`: the
    command that builds what is computed from the stored rows.
    """

    kind: ClassVar[str]
    build: ClassVar[str] = "tokenmart dbt run"
    of_other_models: ClassVar[bool] = False

    @abstractmethod
    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Read one model's files and store them; every row is checked before anything is written.

        Returns:
            Items by task.

        Raises:
            TokenmartError: a file or a row is wrong.
            StorageError: the disk is full or the folder can't be written.
        """


@dataclass(frozen=True)
class Importer(StoringImporter):
    """A format of target scores of one model.

    `metric` is the choice of the user where a file has several.
    """

    metric: str | None = None

    @abstractmethod
    def read(self, path: Path) -> Iterator[Row]:
        """The scored items of a file.

        Raises:
            TokenmartError: it can't be read, or is not in this format.
        """

    def compare(self, files: Sequence[Path], path: Path) -> tuple[list[str], dict[str, Any]]:
        """Why other models' scores can't be compared with these, and facts to record about these.

        Args:
            path: where the items are stored; those of other models are beside it.

        Raises:
            TokenmartError: the files are of several models, or contradict each other.
        """
        return [], {}

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Write the items of one model's files as its downstream scores.

        The same files once more change nothing.
        """
        refuse_missing_or_twice(files)
        folder = to.workspace.downstream / f"problem={to.problem}" / f"model_id={to.model_id}"
        path = folder / "items.parquet"
        same = Counter(file.name for file in files)
        hashes = {
            str(file) if same[file.name] > 1 else file.name: sha256_file(file) for file in files
        }
        record: dict[str, Any] = {"format": self.kind, "metric": self.metric, "files": hashes}
        notes, facts = self.compare(files, path)
        items = _checked(row for file in files for row in self.read(file))
        if not items:
            names = ", ".join(str(file) for file in files)
            raise TokenmartError(f"{names}: contains no scored item", code="no-rows", where=names)
        if path.is_file() and not to.force:
            found = import_record(path)
            if found is not None and {name: found.get(name) for name in record} == record:
                return Counter(item.task for item in items)
            how = f"imported from {', '.join(found['files'])}" if found else "measured"
            raise TokenmartError(
                f"{path}: the model has scores already, {how}; --force replaces them",
                code="scored-already",
                where=path,
            )
        if notes and not to.force:
            raise TokenmartError(
                f"{notes[0]}; import the same of all models, or add --force (nothing was imported)"
            )
        by_task: dict[str, set[int]] = {}
        for item in items:
            by_task.setdefault(item.task, set()).add(item.item)
        notes += _other_items(path, by_task)
        for note in notes:
            click.echo(visible(f"note: {note}"), err=True)
        if notes:
            record["notes"] = notes
        record |= facts
        table = _table(items).replace_schema_metadata({IMPORT_KEY: json.dumps(record)})
        write_table(path, table)
        return Counter(item.task for item in items)


class ItemsImporter(Importer):
    """Columns task, item and score, and optionally cluster and context_tokens."""

    kind = "items"

    def read(self, path: Path) -> Iterator[Row]:
        """The rows of the file, counted from 1 without a header."""
        if self.metric is not None:
            raise TokenmartError(
                "--metric: a file of items has one score a row; leave it out", code="no-metrics"
            )
        for number, item in enumerate(read_rows(path, ItemScore), start=1):
            yield Row(f"{path}: row {number}", item.model_dump())


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


def importer(kind: str, metric: str | None = None) -> StoringImporter:
    """The importer of a format.

    Raises:
        TokenmartError: there is no such format, or it has no metrics to choose from.
    """
    importlib.import_module(f"{__package__}.key_intervals")
    known = kinds(StoringImporter, "importers")  # type: ignore[type-abstract]
    if kind not in known:
        raise TokenmartError(
            f"--format {kind}: no such format; {did_you_mean(kind, known)}formats: "
            f"{', '.join(known)}",
            code="unknown-format",
            where=kind,
        )
    found = known[kind]
    if issubclass(found, Importer):
        return found(metric)
    if metric is not None:
        raise TokenmartError(f"--metric: format {kind} imports all; leave it out")
    return found()


def _checked(rows: Iterable[Row]) -> list[ItemScore]:
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


def _other_items(path: Path, mine: dict[str, set[int]]) -> Iterator[str]:
    """Tasks of which another model was scored on other items, a line each."""
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        rows = read_table(other, ["task", "item"])
        theirs: dict[str, set[int]] = {}
        for row in rows.to_pylist() if other != path else ():
            theirs.setdefault(row["task"], set()).add(row["item"])
        model = other.parent.name.partition("=")[2]
        for task in sorted(mine.keys() & theirs.keys()):
            if mine[task] != theirs[task]:
                yield (
                    f"{task}: {len(mine[task])} items here, {len(theirs[task])} of {model}, "
                    f"{len(mine[task] & theirs[task])} of them the same: the target compares "
                    "scores on different items"
                )
                del mine[task]  # one other model is enough


def import_record(path: Path) -> dict[str, Any] | None:
    """Source of an imported file of items; None if it was measured or can't be read."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    found: dict[str, Any] | None = json.loads(metadata.get(IMPORT_KEY, b"null"))
    return found
