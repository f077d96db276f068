"""Preregistered metrics, tested apart and together: nothing was chosen afterwards.

Their p comes from permuting whole series within families, so it respects both. Neither it nor their
lead over the baseline is adjusted for other metrics tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable, fewer_text
from analysis.statistics.correlations import Interval, number, settled, spearman
from analysis.statistics.families import family_interval
from analysis.statistics.formats import signed, span
from analysis.statistics.preregistered_tests import (
    Lead,
    arrangements,
    directed_test,
    exchangeable_strata,
    lead_over,
)

if TYPE_CHECKING:
    from analysis.preregistration.entries import PreregisteredMetric

LEAD_LEVEL = 0.05
"""Of the one-sided test that a metric leads the baseline."""


@dataclass(frozen=True)
class RegisteredResult:
    """One preregistered metric against the target, with the sign it was registered with.

    rho: Spearman, positive in the registered direction; NaN without a value for every model.
    p: one-sided, adjusted for all metrics registered for the problem.
    arrangements: of series, among which the test compares the one found: p is at least one over it.
    models: behind rho.
    unscored: how many of the registered models have no target score: a part of them, a demo for
        instance, is not what was registered.
    lead: over the baseline; None without one, or where the metric is the baseline.
    baseline: its name, empty without.
    fewer: full id → documents, of the models whose value rests on fewer than that of another;
        uneven: the same in words.
    """

    said: PreregisteredMetric
    rho: float
    interval: Interval
    p: float
    arrangements: int
    models: int
    unscored: int
    lead: Lead | None
    baseline: str
    fewer: dict[str, int]
    uneven: str

    @property
    def holds(self) -> bool:
        """Whether it may be called confirmed."""
        whole = not self.unscored and not self.fewer
        return self.said.counts and whole and self.p < self.said.entry.level

    @property
    def text(self) -> str:
        """The result in one line."""
        entry, metric = self.said.entry, self.said.metric
        name = f"{metric.name} (preregistration {entry.number}, {metric.direction} is better)"
        if not entry.before_labels:
            return f"{name}: written when labels were known ({entry.target}); exploratory"
        if self.said.changed:
            return f"{name}: since then {self.said.changed[0]}; exploratory"
        if self.unscored:
            return (
                f"{name}: {self.unscored} of its {len(entry.models)} models have no target score; "
                "exploratory"
            )
        if self.fewer:
            return (
                f"{name}: models were compared on different documents ({self.uneven}); exploratory"
            )
        if math.isnan(self.p):
            return f"{name}: no value for every model, so it can't be tested"
        if self.arrangements * entry.level < 1:
            return (
                f"{name}: can't be tested, because the series of its {self.models} models have "
                f"{self.arrangements} arrangements only (whole series change places with those of "
                f"as many models in their family) and p is at least {1 / self.arrangements:.2g}"
            )
        ruling = "confirmed" if self.holds else "not confirmed"
        return (
            f"{name}: {ruling}, rho {signed(self.rho)} (95% CI {span(self.interval)}, "
            f"n = {self.models}), one-sided p {self.p:.4f} at level {entry.level:g}"
            f"{self._lead_text}"
        )

    @property
    def _lead_text(self) -> str:
        if self.lead is None:
            return ""
        text = f"; rho minus that of {self.baseline} {signed(self.lead.value)} ({self.lead.text}"
        if math.isnan(self.lead.p):
            return f"{text})"
        return f"{text}: {'is ahead' if self.lead.p < LEAD_LEVEL else 'not distinguishable'})"

    @property
    def record(self) -> dict[str, Any]:
        """The result as JSON-ready values."""
        entry = self.said.entry
        return {
            "metric": self.said.metric.name,
            "direction": self.said.metric.direction,
            "entry": entry.number,
            "sha256": entry.sha256,
            "before_labels": entry.before_labels,
            "changed_since": list(self.said.changed),
            "models_without_target": self.unscored,
            "models_with_fewer_documents": self.fewer,
            "spearman": None if math.isnan(self.p) else number(self.rho),
            "p_one_sided": number(self.p),
            "level": entry.level,
            "holds": self.holds,
            "minus_baseline": self.lead.record if self.lead else None,
        }


def registered_results(
    table: MetricTable, baseline: MetricColumn | None
) -> tuple[RegisteredResult, ...]:
    """Test every metric that was registered for the problem, together and against the baseline."""
    series = list(zip(table.families, table.kinds, strict=True))
    strata = exchangeable_strata(table.families, series)
    built = {column.name: column for column in table.columns if column.kind == "variant"}
    found = [built.get(said.metric.name) for said in table.registered]
    values = np.full((len(found), len(table.models)), np.nan)
    for row, said, column in zip(values, table.registered, found, strict=True):
        if column is not None:
            higher = said.metric.direction == "higher"
            row[:] = settled(column.values if higher else -column.values)
    complete = np.isfinite(values).all(axis=1)
    p = np.full(len(values), np.nan)
    if complete.any():
        seed = table.registered[int(complete.argmax())].entry.seed
        p[complete] = directed_test(
            values[complete], table.target, seed, strata=strata, blocks=series
        )
    results = []
    for said, column, own, own_p in zip(table.registered, found, values, p, strict=True):
        rho, interval, lead = math.nan, Interval(math.nan, math.nan, "family"), None
        if np.isfinite(own).all():
            rho = spearman(own, table.target)
            interval = family_interval(own, table.target, table.families)
            if baseline is not None and baseline is not column:
                lead = lead_over(
                    *(own, baseline.oriented, table.target, table.families, table.series),
                    said.entry.seed,
                )
        fewer = table.fewer_documents(column) if column else {}
        results.append(
            RegisteredResult(
                said=said,
                rho=rho,
                interval=interval,
                p=float(own_p),
                arrangements=arrangements(strata, series),
                models=len(table.models),
                unscored=sum(m.full_id in table.without_target for m in said.entry.models),
                lead=lead,
                baseline="" if baseline is None else baseline.name,
                fewer=fewer,
                uneven=fewer_text(column, fewer) if column else "",
            )
        )
    return tuple(results)
