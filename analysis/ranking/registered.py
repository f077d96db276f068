"""Preregistered metrics against the target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.ranking.metric_table import MetricTable
from analysis.statistics.correlations import Floats, without_rounding
from analysis.statistics.decisions import Decisions, decide

if TYPE_CHECKING:
    from analysis.preregistration.entries import PreregisteredMetric


Code = Literal[
    "confirmed", "not-confirmed", "known-labels", "changed", "outdated", "models-without-target",
    "uneven-documents", "missing-models", "constant", "constant-target", "too-few",
]  # fmt: skip
"""The outcome, or the reason why there is none: known-labels: written when the labels were known;
changed: the definition did since; outdated: values of an earlier state; the others as `Verdict`."""


@dataclass(frozen=True, kw_only=True)
class RegisteredResult:
    """One preregistered metric against the target, with the sign it was registered with.

    decisions: on all metrics registered at its level; this one is the metric `place` of them.
    values: `[models]`, oriented as registered, NaN where missing.
    unscored: how many of the registered models have no target score: a part of them, a demo for
        instance, is not what was registered.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    """

    prediction: PreregisteredMetric
    code: Code
    decisions: Decisions
    place: int
    values: Floats
    unscored: int
    fewer: dict[str, int]

    @property
    def rho(self) -> float:
        """Spearman, positive in the registered direction; NaN without a value for every model."""
        complete = np.isfinite(self.values).all()
        return float(self.decisions.overall.rho[self.place]) if complete else math.nan


def registered_results(table: MetricTable) -> tuple[RegisteredResult, ...]:
    """Test every metric that was registered for the problem, together."""
    built = {column.name: column for column in table.columns if column.kind == "variant"}
    values = np.full((len(table.registered), len(table.models)), np.nan)
    for row, prediction in zip(values, table.registered, strict=True):
        if column := built.get(prediction.metric.name):
            higher = prediction.metric.direction == "higher"
            row[:] = without_rounding(column.values if higher else -column.values)
    of_level: dict[float, Decisions] = {}
    results = []
    for place, prediction in enumerate(table.registered):
        entry, column = prediction.entry, built.get(prediction.metric.name)
        if entry.level not in of_level:
            groups = (table.families, table.groupings)
            of_level[entry.level] = decide(values, table.target, *groups, entry.seed, entry.level)
        fewer = table.fewer_documents(column) if column else {}
        unscored = sum(m.full_id in table.without_target for m in entry.models)
        results.append(
            RegisteredResult(
                prediction=prediction,
                code=_code(table, prediction, unscored, fewer, of_level[entry.level], place),
                decisions=of_level[entry.level],
                place=place,
                values=values[place],
                unscored=unscored,
                fewer=fewer,
            )
        )
    return tuple(results)


def _code(
    table: MetricTable,
    prediction: PreregisteredMetric,
    unscored: int,
    fewer: dict[str, int],
    decisions: Decisions,
    place: int,
) -> Code:
    reasons: dict[Code, Any] = {
        "known-labels": not prediction.entry.before_labels,
        "changed": prediction.changed,
        "outdated": table.outdated,
        "models-without-target": unscored,
        "uneven-documents": fewer,
        "missing-models": not decisions.complete[place],
    }
    verdict = decisions.verdict(place)
    if verdict == "too-few" or verdict == "constant" or verdict == "constant-target":
        reasons[verdict] = True
    outcome: Code = "confirmed" if verdict == "tracks" else "not-confirmed"
    return next((code for code, there in reasons.items() if there), outcome)
