"""Pre-registered metrics are tested first and together: nothing was chosen afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.preregistration.preregistered import PreregisteredMetric
from analysis.ranking.coverage import fewer_documents, fewer_text
from analysis.ranking.metric_table import MetricTable
from analysis.statistics.bootstrap import Interval
from analysis.statistics.correlations import spearman
from analysis.statistics.families import family_interval
from analysis.statistics.permutation import directed_test, exchangeable_strata


@dataclass(frozen=True)
class RegisteredResult:
    """One preregistered metric against the target, with the sign it was registered with.

    rho: Spearman, positive in the registered direction; NaN without a value for every model.
    p: one-sided, adjusted for all metrics registered for the problem.
    unscored: how many of the registered models have no target score: a part of them, a demo for
        instance, is not what was registered.
    fewer: full id → documents, of the models whose value rests on fewer than that of another;
        uneven: the same in words.
    """

    said: PreregisteredMetric
    rho: float
    interval: Interval
    p: float
    unscored: int = 0
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
        name = f"{metric.name} (pre-registration {entry.number}, {metric.direction} is better)"
        if not entry.before_labels:
            return f"{name}: written when labels were known ({entry.target}); exploration"
        if self.said.changed:
            return f"{name}: since then {self.said.changed[0]}; exploration"
        if self.unscored:
            return (
                f"{name}: {self.unscored} of its {len(entry.models)} models have no target score; "
                "exploration"
            )
        if self.fewer:
            return (
                f"{name}: models were compared on different documents ({self.uneven}); exploration"
            )
        if np.isnan(self.p):
            return f"{name}: no value for every model, so it can't be tested"
        ruling = "holds" if self.holds else "does not hold"
        return (
            f"{name}: rho {self.rho:+.2f} ({self.interval.low:+.2f} to {self.interval.high:+.2f}), "
            f"one-sided p {self.p:.4f}, level {entry.level:g}: {ruling}"
        )


def registered_results(table: MetricTable) -> tuple[RegisteredResult, ...]:
    """Test every metric that was registered for the problem, together."""
    series = list(zip(table.families, table.kinds, strict=True))
    strata = exchangeable_strata(table.families, series)
    built = {column.name: column for column in table.columns if column.kind == "variant"}
    asked = [built.get(said.metric.name) for said in table.registered]
    columns = []
    for said, found in zip(table.registered, asked, strict=True):
        sign = 1.0 if said.metric.direction == "higher" else -1.0
        columns.append(np.full(len(table.models), np.nan) if found is None else sign * found.values)
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
            sum(model.full_id in table.without_target for model in said.entry.models),
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
    }
