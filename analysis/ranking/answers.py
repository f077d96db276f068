"""The two answers of `tokenmart select` and `tokenmart correlate`, in words.

Which metrics track the target, and which can't be distinguished from the best. Preregistered
metrics come first; everything else is exploratory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.ranking.inference import Inference
from analysis.ranking.metric_table import MetricColumn
from analysis.ranking.registered import RegisteredResult
from analysis.statistics.bootstrap import Interval

NAMED = 5
"""Number of metrics that are named; the rest is counted."""


@dataclass(frozen=True)
class Claim:
    """A variant's figures, as an answer prints them."""

    metric: str
    name: str
    rho: float
    interval: Interval
    evidence: tuple[str, ...]
    within_rho: float
    within_interval: Interval


def claim_of(column: MetricColumn, inference: Inference, row: int) -> Claim:
    """The figures of a column; `row`: its place in `table.everything`."""
    return Claim(
        metric=column.metric,
        name=column.name,
        rho=inference.rho(row),
        interval=inference.interval(row),
        evidence=inference.evidence(row),
        within_rho=float(inference.within.rho[row]),
        within_interval=inference.within_interval(row),
    )


def registered_lines(registered: Sequence[RegisteredResult]) -> list[str]:
    """One line for each preregistered metric."""
    return [f"Preregistered: {result.text}." for result in registered]


def registered_names(registered: Sequence[RegisteredResult]) -> frozenset[str]:
    """The metrics that lead every table: preregistered, and as they were registered."""
    return frozenset(result.said.metric.name for result in registered if result.said.counts)


def tracking_lines(
    claims: Sequence[Claim], first: Claim, models: int, tested: int, least: float
) -> list[str]:
    """Which metrics track the target, by the best variant of each; or that none does.

    Args:
        claims: variants that track the target, largest rho first.
        first: the variant with the largest rho.
        models: n.
        tested: number of metrics and ideas tested.
        least: the rho from which an interval over all models excludes 0.
    """
    null = f"95% null maximum of {tested} tested: {least:+.2f}"
    if not claims:
        return [
            f"No metric tracks the target: no 95% CI excludes 0. Best of all: "
            f"{_rho(first, models)}. {null}."
        ]
    best = _of_metrics(claims)
    names = [f"{metric} ({_counted(found, 'variant')})" for metric, found in best.items()]
    lines = [f"These metrics track the target: {_listed(names)}. {null}."]
    for found in list(best.values())[:NAMED]:
        claim = found[0]
        text = f"  {_rho(claim, models)}: CI excludes 0 {' and '.join(claim.evidence)}"
        if "over all models" not in claim.evidence:
            text += f", rho {claim.within_rho:+.2f} ({span(claim.within_interval)})"
        lines.append(text)
    return lines


def baseline_line(claim: Claim, models: int) -> str:
    """The baseline's figures, which every answer is compared with."""
    return f"Baseline: {_rho(claim, models)}."


def near_best_line(near: Sequence[Claim]) -> str:
    """Which metrics can't be distinguished from the best; `near` has the best first."""
    others = [
        f"{metric} ({_counted(found, 'variant')})" for metric, found in _of_metrics(near).items()
    ]
    return f"Not distinguishable from the best ({near[0].name}): {_listed(others)}."


def exploratory_line(registered: Sequence[RegisteredResult]) -> str:
    """The sentence on exploratory results that precedes the answers."""
    what = "Everything below" if registered else "No metric is preregistered; everything"
    return f"{what} is exploratory: p and CI allow for the choice among all metrics tested."


def span(interval: Interval) -> str:
    """Both ends of an interval; a dash where there is none."""
    return "–" if math.isnan(interval.low) else f"{interval.low:+.2f} to {interval.high:+.2f}"


def _rho(claim: Claim, models: int) -> str:
    return f"{claim.name}, rho {claim.rho:+.2f} (95% CI {span(claim.interval)}, n = {models})"


def _of_metrics(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.metric, []).append(claim)
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more metrics" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _counted(found: Sequence[Claim], what: str) -> str:
    return f"{len(found)} {what}" + ("" if len(found) == 1 else "s")
