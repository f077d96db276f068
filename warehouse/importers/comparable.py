"""Whether the scores of several models may be compared: files, models, metrics, runs and items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import TokenmartError
from warehouse.remote import footer, source
from warehouse.text_file import refuse_no_file

IMPORT_KEY = b"tokenmart.import"
"""Parquet footer key: JSON with the format, the metric and the sha256 of the files imported."""


@dataclass(frozen=True)
class Measure:
    """What the scores of a task are, as far as a file shows it.

    Attributes:
        metric: its name.
        lower_is_better: whether lower values are better, by the file or the metric's name.
        run: what else must be equal for two models' scores to be compared: few-shot examples,
            chat, version of the task; empty if unknown.
    """

    metric: str
    lower_is_better: bool = False
    run: str = ""

    def __str__(self) -> str:
        """The metric and the run, as messages name them."""
        return f"{self.metric} ({self.run})" if self.run else self.metric

    def comparable(self, other: Measure) -> bool:
        """Whether another model's scores may be compared with these."""
        same_run = self.run == other.run or not (self.run and other.run)
        return self.metric == other.metric and same_run


def refuse_missing_or_twice(files: Sequence[Path]) -> None:
    """Stop at a file that isn't there, or that is named twice.

    Raises:
        TokenmartError: one is.
    """
    seen: set[Path] = set()
    for file in files:
        refuse_no_file(file)
        if (found := file.resolve()) in seen:
            raise TokenmartError(f"{file}: was given before; name it once (nothing was imported)")
        seen.add(found)


def refuse_several_models(models: Mapping[Path, str | None]) -> None:
    """Stop at files of several models; `models` has the name in each file.

    Raises:
        TokenmartError: they name more than one.
    """
    named: dict[str, Path] = {}
    for file, model in models.items():
        if model is not None:
            named.setdefault(model, file)
    if len(named) > 1:
        (one, first), (other, second), *_ = named.items()
        raise TokenmartError(
            f"{first} is of {one}, {second} of {other}: import the files of one model at a time "
            "(nothing was imported)"
        )


def other_measures(path: Path, measured: Mapping[str, Measure]) -> Iterator[str]:
    """Tasks of which another model's scores are of another metric or another run, a line each."""
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        stored = (import_record(other) or {}).get("measured") or {}
        for task in sorted(measured.keys() & stored.keys()) if other != path else ():
            mine, theirs = measured[task], Measure(**stored[task])
            if not mine.comparable(theirs):
                model = other.parent.name.partition("=")[2]
                yield (
                    f"{task}: its scores here are {mine}, those of {model} are {theirs}: the "
                    "target would compare different things"
                )


def other_items(path: Path, mine: dict[str, set[int]]) -> Iterator[str]:
    """Tasks of which another model was scored on other items, a line each."""
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        rows = pq.read_table(source(other), columns=["task", "item"], partitioning=None)
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
        metadata = pq.read_schema(footer(path)).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    found: dict[str, Any] | None = json.loads(metadata.get(IMPORT_KEY, b"null"))
    return found
