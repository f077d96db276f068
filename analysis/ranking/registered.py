"""Preregistered metrics, tested apart and together: nothing was chosen afterwards.

Their p comes from permuting whole series within families, so it respects both; their lead over the
baseline from `analysis.statistics.comparison`. Neither is adjusted for other metrics tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.preregistration.preregistered import PreregisteredMetric
from analysis.ranking.coverage import fewer_documents, fewer_text
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.bootstrap import Interval
from analysis.statistics.comparison import Lead, lead_over
from analysis.statistics.correlations import settled, spearman
from analysis.statistics.families import family_interval
from analysis.statistics.permutation import arrangements, directed_test, exchangeable_strata

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
    models: int = 0
    unscored: int = 0
    lead: Lead | None = None
    baseline: str = ""
    fewer: dict[str, int] = field(default_factory=dict)
    uneven: str = ""

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
        if np.isnan(self.p):
            return f"{name}: no value for every model, so it can't be tested"
        if self.arrangements * entry.level < 1:
            return (
                f"{name}: can't be tested, because the series of its {self.models} models have "
                f"{self.arrangements} arrangements only (whole series change places with those of "
                f"as many models in their family) and p is at least {1 / self.arrangements:.2g}"
            )
        ruling = "confirmed" if self.holds else "not confirmed"
        return (
            f"{name}: {ruling}, rho {self.rho:+.2f} (95% CI {self.interval.low:+.2f} to "
            f"{self.interval.high:+.2f}, n = {self.models}), one-sided p {self.p:.4f} at level "
            f"{entry.level:g}{self._lead_text}"
        )

    @property
    def _lead_text(self) -> str:
        if self.lead is None:
            return ""
        text = f"; rho minus that of {self.baseline} {self.lead.value:+.2f} ({lead_text(self.lead)}"
        if np.isnan(self.lead.p):
            return f"{text})"
        return f"{text}: {'is ahead' if self.lead.p < LEAD_LEVEL else 'not distinguishable'})"


def lead_text(lead: Lead) -> str:
    """The interval and the p of a lead, where there are enough series for them."""
    if np.isnan(lead.p):
        return f"{lead.series} series are too few for a CI or a p"
    interval = (
        f"{lead.series} series are too few for a CI"
        if np.isnan(lead.interval.low)
        else f"95% CI {lead.interval.low:+.2f} to {lead.interval.high:+.2f}, paired bootstrap over "
        f"{lead.series} series"
    )
    return f"{interval}; one-sided p {'within families ' if lead.within else ''}{lead.p:.4f}"


def registered_results(
    table: MetricTable, baseline: MetricColumn | None = None
) -> tuple[RegisteredResult, ...]:
    """Test every metric that was registered for the problem, together.

    Args:
        table: of the problem.
        baseline: what each is compared with, a column with a value for every model.
    """
    series = list(zip(table.families, table.kinds, strict=True))
    strata = exchangeable_strata(table.families, series)
    built = {column.name: column for column in table.columns if column.kind == "variant"}
    asked = [built.get(said.metric.name) for said in table.registered]
    columns = []
    for said, found in zip(table.registered, asked, strict=True):
        sign = 1.0 if said.metric.direction == "higher" else -1.0
        columns.append(
            np.full(len(table.models), np.nan) if found is None else settled(sign * found.values)
        )
    whole = [index for index, column in enumerate(columns) if np.isfinite(column).all()]
    p = np.full(len(columns), np.nan)
    if whole:
        seed = table.registered[whole[0]].entry.seed
        rows = np.stack([columns[index] for index in whole])
        p[whole] = directed_test(rows, table.target, seed, strata=strata, blocks=series)
    return tuple(
        RegisteredResult(
            said,
            spearman(column, table.target) if index in whole else float("nan"),
            family_interval(column, table.target, table.families)
            if index in whole
            else Interval(float("nan"), float("nan"), 0.95, "family", 0, 0),
            float(p[index]),
            arrangements(strata, series),
            len(table.models),
            sum(model.full_id in table.without_target for model in said.entry.models),
            lead_over(
                column,
                baseline.oriented,
                table.target,
                table.families,
                table.series,
                said.entry.seed,
            )
            if index in whole and baseline is not None and baseline is not found
            else None,
            "" if baseline is None else baseline.name,
            fewer_documents(table, found) if found else {},
            fewer_text(table, found) if found else "",
        )
        for index, (said, column, found) in enumerate(
            zip(table.registered, columns, asked, strict=True)
        )
    )


def registered_record(result: RegisteredResult) -> dict[str, Any]:
    """A result as JSON-ready values."""
    entry = result.said.entry
    known = not np.isnan(result.p)
    return {
        "metric": result.said.metric.name,
        "direction": result.said.metric.direction,
        "entry": entry.number,
        "sha256": entry.sha256,
        "before_labels": entry.before_labels,
        "changed_since": list(result.said.changed),
        "models_without_target": result.unscored,
        "models_with_fewer_documents": result.fewer,
        "spearman": round(result.rho, 12) if known else None,
        "p_one_sided": round(result.p, 12) if known else None,
        "level": entry.level,
        "holds": result.holds,
        "minus_baseline": lead_record(result.lead),
    }


def lead_record(lead: Lead | None) -> dict[str, Any] | None:
    """A lead over the baseline as JSON-ready values; None without one."""
    if lead is None:
        return None
    low, high = lead.interval.low, lead.interval.high
    return {
        "value": round(lead.value, 12),
        "ci95": None if np.isnan(low) else [round(low, 12), round(high, 12)],
        "p_one_sided": None if np.isnan(lead.p) else round(lead.p, 12),
        "p_within_families": lead.within,
        "series": lead.series,
    }
