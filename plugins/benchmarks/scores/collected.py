"""Scores of checkpoints from several files, as a plain table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.checkpoints import Checkpoint
from plugins.benchmarks.scores.metric_directions import direction_of

FIELDS = (
    *("model", "step", "tokens", "benchmark", "metric", "direction", "score", "stderr"),
    *("parameters", "size", "architecture", "recipe"),
)
"""Columns of a row, named as in a plain table."""

Row = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Score:
    """One number of a checkpoint.

    name: of the checkpoint. direction: as its file states it. file, date, limit (of items, 0 for
    all of them), version (of the task), weights (commits): where it is from.
    """

    name: str
    benchmark: str
    metric: str
    direction: str | None
    value: float
    stderr: float | None
    parameters: int | None
    file: Path
    date: float
    limit: float
    version: str
    weights: str


@dataclass(frozen=True)
class Collected:
    """Scores, and notes on them."""

    scores: Sequence[Score]
    notes: list[str] = field(default_factory=list)

    def parameters(self) -> dict[str, int | None]:
        """Name of each checkpoint → number of parameters, None if unknown."""
        return {score.name: score.parameters for score in self.scores}

    def of_metric(self, metric: str | None) -> Collected:
        """The same with the scores of one metric; all for None.

        Raises:
            TokenmartError: no score is of this metric.
        """
        known = {score.metric for score in self.scores}
        if metric is not None and metric not in known:
            raise unknown("--metric", metric, sorted(known))
        kept = [score for score in self.scores if metric in (None, score.metric)]
        return Collected(kept, self.notes)

    def rows(
        self, named: Mapping[str, Checkpoint], directions: Mapping[str, str], names: Path
    ) -> list[Row]:
        """The rows of a plain table, sorted.

        Args:
            named: name → checkpoint.
            directions: metric → higher or lower, as the user states it.
            names: file of `named`, for messages.

        Raises:
            TokenmartError: two checkpoints have one place in the table, or the direction of a
                metric is unknown.
        """
        better = self._directions(directions)
        places: dict[tuple[object, ...], str] = {}
        rows: list[Row] = []
        for score in self.scores:
            at = named[score.name]
            place = at.model, at.step, at.tokens, score.benchmark, score.metric
            if places.setdefault(place, score.name) != score.name:
                raise refused(
                    names,
                    f"{places[place]} and {score.name} are both {at.model} at step {at.step}; "
                    "correct model, step or tokens of one",
                    "two-checkpoints",
                )
            rows.append(
                {
                    **at.model_dump(exclude={"name"}),
                    "benchmark": score.benchmark,
                    "metric": score.metric,
                    "direction": better[score.metric],
                    "score": score.value,
                    "stderr": score.stderr,
                }
            )
        return sorted(rows, key=lambda row: [(row[n] is not None, row[n]) for n in FIELDS[:5]])

    def _directions(self, given: Mapping[str, str]) -> dict[str, str]:
        """Metric → higher or lower: as given, else as a file states it, else by its name."""
        stated: dict[str, dict[str, Score]] = {}
        for score in self.scores:
            asked = given.get(score.metric) or given.get(score.metric.partition(",")[0])
            direction = asked or score.direction
            of_metric = stated.setdefault(score.metric, {})
            if direction is not None:
                of_metric.setdefault(direction, score)
        found = {}
        for metric, directions in stated.items():
            direction = next(iter(directions), None) or direction_of(metric)
            if len(directions) > 1 or direction is None:
                files = ", ".join(f"{each}: {s.file}" for each, s in directions.items())
                raise refused(
                    metric,
                    f"are higher or lower values better? ({files or 'not stated'}); add "
                    f"--direction {metric.partition(',')[0]}=higher or =lower",
                    "unknown-direction",
                )
            found[metric] = direction
        return found


def as_csv(rows: Sequence[Row]) -> str:
    """The plain table, as text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
