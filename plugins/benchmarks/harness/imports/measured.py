"""Importers of results that name their model, metric and run, so that other models' can differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.importers.importer import Importer, import_record


@dataclass(frozen=True)
class Measure:
    """What the scores of a task are, as far as a file shows it.

    Attributes:
        metric: its name; empty if unknown.
        lower_is_better: whether lower values are better, by the file or the metric's name.
        run: what else must be equal for two models' scores to be compared: few-shot examples,
            chat, version of the task, settings of generations; empty if unknown.
    """

    metric: str
    lower_is_better: bool = False
    run: str = ""

    def __str__(self) -> str:
        """The metric and the run, as messages name them."""
        metric = self.metric or "an unnamed metric"
        return f"{metric} ({self.run})" if self.run else metric

    def comparable(self, other: Measure) -> bool:
        """Whether another model's scores may be compared with these."""
        both = (self.metric, other.metric), (self.run, other.run)
        return all(mine == theirs or not (mine and theirs) for mine, theirs in both)


class MeasuredImporter(Importer):
    """A format of target scores that shows what the scores are."""

    def model(self, path: Path) -> str | None:
        """The model that a file is of; None where it names none."""
        return None

    def measures(self, path: Path) -> dict[str, Measure]:
        """Task → what its scores in a file are; empty if the format doesn't show it."""
        return {}

    def compare(self, files: Sequence[Path], path: Path) -> tuple[list[str], dict[str, Any]]:
        """Refuse files of several models; name other metrics and runs of other models."""
        refuse_several_models({file: self.model(file) for file in files})
        measured = _measured(self, files)
        recorded = {task: vars(measure) for task, measure in measured.items()}
        return list(_other_measures(path, measured)), {"measured": recorded} if measured else {}


def named_model(facts: Mapping[str, Any], *keys: str) -> str | None:
    """What identifies a model in a program's account of its run; None where nothing does."""
    return " ".join(str(facts[key]) for key in keys if facts.get(key)) or None


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


def _other_measures(path: Path, measured: Mapping[str, Measure]) -> Iterator[str]:
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


def _measured(reader: MeasuredImporter, files: Sequence[Path]) -> dict[str, Measure]:
    """Task → what its scores are.

    Raises:
        TokenmartError: lower values are better, which a target's are not, or two files have
            different scores of a task.
    """
    found: dict[str, Measure] = {}
    for file in files:
        for task, measure in reader.measures(file).items():
            if measure.lower_is_better:
                raise TokenmartError(
                    f"{file}: lower values of {measure.metric} are better, and a target is read as "
                    "higher is better; import another metric, or a table of items with the sign "
                    "reversed (--format items)"
                )
            if not found.setdefault(task, measure).comparable(measure):
                raise TokenmartError(
                    f"{file}: its scores of {task} are {measure}, those of the files before are "
                    f"{found[task]}; import one of them (nothing was imported)"
                )
    return found
