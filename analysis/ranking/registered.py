"""Preregistered metrics, tested apart and together: nothing was chosen afterwards.

`decide` tests them as it tests all metrics, with as many metrics as were registered and at the
level that was registered. The sign is part of the prediction: only an interval above 0 confirms.
Neither p nor the lead over the baseline is adjusted for other metrics tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.correlations import Interval, number, without_rounding
from analysis.statistics.decisions import Decisions, decide
from analysis.statistics.lead import Lead, lead_over

if TYPE_CHECKING:
    from analysis.preregistration.entries import PreregisteredMetric

Code = Literal[
    "confirmed", "not-confirmed", "known-labels", "changed", "models-without-target",
    "uneven-documents", "missing-models", "constant", "constant-target", "too-few",
]  # fmt: skip
"""The outcome, or the reason why there is none: known-labels: written when the labels were known;
changed: the definition did since; the others as `decisions.Verdict`."""


@dataclass(frozen=True)
class RegisteredResult:
    """One preregistered metric against the target, with the sign it was registered with.

    rho: Spearman, positive in the registered direction; NaN without a value for every model.
    interval: of rho; within_rho, within_interval: within families. All belong to the decision.
    p: one-sided, adjusted for all metrics registered for the problem, the smaller one of the two.
    models: behind rho.
    unscored: how many of the registered models have no target score: a part of them, a demo for
        instance, is not what was registered.
    lead: over the baseline; None without one, or where the metric is the baseline.
    baseline: its name, empty without.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    """

    prediction: PreregisteredMetric
    code: Code
    rho: float
    interval: Interval
    within_rho: float
    within_interval: Interval
    evidence: tuple[str, ...]
    p: float
    models: int
    unscored: int
    lead: Lead | None
    baseline: str
    fewer: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether it may be called confirmed."""
        return self.code == "confirmed"

    @property
    def record(self) -> dict[str, Any]:
        """The result as JSON-ready values."""
        entry = self.prediction.entry
        return {
            "metric": self.prediction.metric.name,
            "direction": self.prediction.metric.direction,
            "entry": entry.number,
            "sha256": entry.sha256,
            "before_labels": entry.before_labels,
            "changed_since": list(self.prediction.changed),
            "models_without_target": self.unscored,
            "models_with_fewer_documents": self.fewer,
            "code": self.code,
            "spearman": number(self.rho),
            "spearman_ci": self.interval.record,
            "spearman_within_families": number(self.within_rho),
            "spearman_within_families_ci": self.within_interval.record,
            "evidence": list(self.evidence),
            "p_one_sided": number(self.p),
            "level": entry.level,
            "holds": self.holds,
            "minus_baseline": self.lead.record if self.lead else None,
        }


def registered_results(
    table: MetricTable, baseline: MetricColumn | None
) -> tuple[RegisteredResult, ...]:
    """Test every metric that was registered for the problem, together and against the baseline."""
    built = {column.name: column for column in table.columns if column.kind == "variant"}
    found = [built.get(prediction.metric.name) for prediction in table.registered]
    values = np.full((len(found), len(table.models)), np.nan)
    for row, prediction, column in zip(values, table.registered, found, strict=True):
        if column is not None:
            higher = prediction.metric.direction == "higher"
            row[:] = without_rounding(column.values if higher else -column.values)
    of_level: dict[float, Decisions] = {}
    results = []
    for place, (prediction, column) in enumerate(zip(table.registered, found, strict=True)):
        level = prediction.entry.level
        if level not in of_level:
            of_level[level] = decide(
                *(
                    values,
                    table.target,
                    table.families,
                    table.groupings,
                    prediction.entry.seed,
                    level,
                )
            )
        decisions, own = of_level[level], values[place]
        lead = None
        if np.isfinite(own).all() and baseline is not None and baseline is not column:
            lead = lead_over(
                *(own, baseline.oriented, table.target, table.families, table.series),
                prediction.entry.seed,
            )
        unscored = sum(m.full_id in table.without_target for m in prediction.entry.models)
        fewer = table.fewer_documents(column) if column else {}
        known = bool(np.isfinite(own).all())
        results.append(
            RegisteredResult(
                prediction=prediction,
                code=_code(prediction, unscored, fewer, decisions, place),
                rho=float(decisions.overall.rho[place]) if known else math.nan,
                interval=decisions.overall.interval(place),
                within_rho=float(decisions.within.rho[place]),
                within_interval=decisions.within.interval(place),
                evidence=decisions.evidence(place),
                p=decisions.p(place),
                models=len(table.models),
                unscored=unscored,
                lead=lead,
                baseline="" if baseline is None else baseline.name,
                fewer=fewer,
            )
        )
    return tuple(results)


def _code(
    prediction: PreregisteredMetric,
    unscored: int,
    fewer: dict[str, int],
    decisions: Decisions,
    place: int,
) -> Code:
    if not prediction.entry.before_labels:
        return "known-labels"
    if prediction.changed:
        return "changed"
    if unscored:
        return "models-without-target"
    if fewer:
        return "uneven-documents"
    if not decisions.complete[place]:
        return "missing-models"
    verdict = decisions.verdict(place)
    if verdict == "too-few" or verdict == "constant" or verdict == "constant-target":
        return verdict
    return "confirmed" if verdict == "tracks" else "not-confirmed"
