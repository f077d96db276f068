"""All metrics of a problem against its target: one record, which commands and report show.

`decide` says what is concluded about each metric, of all metrics ever tested. Comparisons, with the
best metric and with the baseline, are among the candidates: admissible variants of this build that
have a value for every model. Only they may be chosen.

Preregistered metrics are tested apart and together: nothing was chosen afterwards. `decide` tests
them as it tests all metrics, with as many metrics as were registered and at the level that was
registered. The sign is part of the prediction: only an interval above 0 confirms. p is not adjusted
for other metrics tested. How far a metric is ahead of the baseline is no part of what is
registered: see its row among all metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.registered import RegisteredResult, registered_results
from analysis.ranking.sensitivity import Carried, Joined, carried_by, joined_series
from analysis.statistics.correlations import Interval, partial_spearman, spearman
from analysis.statistics.decisions import Decisions, Verdict, decide
from analysis.statistics.document_noise import noise_ceiling
from analysis.statistics.families import MINIMUM_MODELS
from analysis.statistics.resampling import ChoiceProcedure, choice_procedure
from analysis.statistics.simultaneous import ahead_of, indistinguishable, joint_errors

BASELINES = ("perplexity", "no_evaluation")
"""Metrics that others are compared with; the second one, where scores were made elsewhere, is what
is known of a run without evaluating it."""

MINIMUM_OF_PARTIAL = 8
"""Models of known size, from which a correlation given size is computed."""


class _Lead(NamedTuple):
    """rho minus that of the baseline, its one-sided p, and whether it is significantly larger."""

    difference: float
    p: float
    is_significant: bool


_NO_LEAD = _Lead(math.nan, math.nan, False)

Answer = Literal["tracks", "none-tracks", "too-few", "constant-target"]


@dataclass(frozen=True, kw_only=True)
class RankedMetric:
    """One metric with its sign, in the inference on all metrics ever tested.

    rho: Spearman over all models with a value.
    interval, p_adjusted: simultaneous for all metrics tested; NaN where it isn't tested.
    within_rho, within_interval, p_within: the same within families.
    verdict, evidence: see `decisions.Verdict` and `Decisions.evidence`.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    near_best: whether it is a candidate that can't be distinguished from the best one.
    minus_baseline: rho minus that of the baseline; p_beats_baseline: one-sided, adjusted for all
        complete columns. NaN for others, and where the models are too few for any claim.
    leads: whether it tracks the target and has a significantly larger rho than the baseline.
    partial: Spearman given log parameters.
    alike: the columns with the most similar ranking (Spearman, with its sign); of ideas only.
    """

    column: MetricColumn
    rho: float
    interval: Interval
    p_adjusted: float
    within_rho: float
    within_interval: Interval
    p_within: float
    verdict: Verdict
    evidence: tuple[str, ...]
    fewer: dict[str, int]
    near_best: bool
    minus_baseline: float
    p_beats_baseline: float
    leads: bool
    partial: float
    alike: tuple[tuple[MetricColumn, float], ...] = ()

    @property
    def n(self) -> int:
        """Number of models with a value."""
        return int(self.column.present.sum())

    @property
    def tracks(self) -> bool:
        """Whether it tracks the target."""
        return self.verdict == "tracks"


@dataclass(frozen=True)
class Ranking:
    """Ideas first, then variants by decreasing rho, undefined ones last.

    decisions: about all metrics ever tested, in the order of `table.everything`.
    candidates: rows that may be chosen, largest rho first.
    baseline: the row that others are compared with; None if there is none.
    registered: the preregistered metrics, tested apart.
    choice: what choosing among the candidates is worth; None where it wasn't asked for.
    noise_ceiling: what a perfect metric may reach against this target, NaN where unknown.
    joined: what would be decided with models joined that behave as one series, if there are any.
    carried: the models without which the first metric that tracks doesn't, if three suffice.
    """

    table: MetricTable
    rows: tuple[RankedMetric, ...]
    candidates: tuple[RankedMetric, ...]
    baseline: RankedMetric | None
    decisions: Decisions
    registered: tuple[RegisteredResult, ...]
    choice: ChoiceProcedure | None
    noise_ceiling: float
    seed: int
    joined: Joined | None
    carried: Carried | None

    @property
    def answer(self) -> Answer:
        """The conclusion in one code."""
        if self.decisions.constant_target:
            return "constant-target"
        if self.decisions.too_few:
            return "too-few"
        return "tracks" if self.tracking else "none-tracks"

    @property
    def without_baseline(self) -> str:
        """Name of the baseline that can't be one: it's constant or lacks a model. Else empty."""
        wanted = default_baseline(self.table.columns, self.table.baseline)
        return wanted.name if wanted is not None and self.baseline is None else ""

    @property
    def best(self) -> RankedMetric | None:
        """The candidate with the largest rho."""
        return self.candidates[0] if self.candidates else None

    @property
    def tracking(self) -> tuple[RankedMetric, ...]:
        """What tracks the target, largest rho first."""
        return tuple(sorted((row for row in self.rows if row.tracks), key=best_first))

    @property
    def first_tracking(self) -> RankedMetric | None:
        """What the answer names: of what tracks the target, the first that is admissible."""
        return next((row for row in self.tracking if row.column.admissible), None) or next(
            iter(self.tracking), None
        )

    @property
    def near_best(self) -> tuple[RankedMetric, ...]:
        """Candidates that can't be distinguished from the best, largest rho first."""
        return tuple(row for row in self.candidates if row.near_best)

    def shown(self, metrics: Sequence[str]) -> tuple[RankedMetric, ...]:
        """The rows of these METRICs or METRIC/VARIANTs, ideas always; all when none is named."""
        named = set(self.table.named(metrics))
        return tuple(r for r in self.rows if r.column.kind != "variant" or r.column in named)


def best_first(row: RankedMetric) -> tuple[float, str]:
    """Sort key: largest rho first, of too few models last; equal ones by name, not by column."""
    undefined = math.isnan(row.rho) or row.n < MINIMUM_MODELS
    return 2.0 if undefined else -round(row.rho, 10), row.column.name


def rank_metrics(
    table: MetricTable,
    seed: int,
    splits: int = 0,
    unofficial: bool = False,
) -> Ranking:
    """Decide on every metric and compare the candidates.

    'Lower is better' metrics are negated first, so that a positive rho means that the metric
    behaves as its catalogue entry expects.

    Args:
        table: of the problem.
        seed: of all that is drawn.
        splits: random splits that estimate what the choice is worth; none with 0.
        unofficial: let variants compete that need a second model.
    """
    metrics = np.stack([column.oriented for column in table.everything])
    decisions = decide(metrics, table.target, table.families, table.groupings, seed)
    complete = [column for column in table.columns if _is_complete(column)]
    candidates = [column for column in complete if _may_be_chosen(column, unofficial)]
    baseline = default_baseline(complete, table.baseline)
    comparable = bool(np.ptp(table.target) > 0) and not decisions.too_few
    near_best, leads = _compared(table, candidates, complete, baseline, comparable)
    rows = [
        _ranked(table, decisions, place, column in near_best, leads.get(column, _NO_LEAD))
        for place, column in enumerate(table.columns)
    ]
    rows.sort(key=lambda row: (row.column.kind == "variant", best_first(row)))
    allowed, choice = set(candidates), None
    if splits and candidates:
        # built once and no longer there: they can't win, but choices were made among them, too
        earlier = [c for c in table.recorded if _may_be_chosen(c, unofficial) and _is_complete(c)]
        choice = _choice([*candidates, *earlier], baseline, table, seed, splits)
    ranking = Ranking(
        table=table,
        rows=tuple(rows),
        candidates=tuple(row for row in rows if row.column in allowed),
        baseline=next((row for row in rows if row.column is baseline), None),
        decisions=decisions,
        registered=registered_results(table),
        choice=choice,
        noise_ceiling=noise_ceiling(table.target, table.target_errors),
        seed=seed,
        joined=None if decisions.too_few else joined_series(table, complete, seed),
        carried=None,
    )
    if (claimed := ranking.first_tracking) is None:
        return ranking
    return replace(ranking, carried=carried_by(table, claimed.column, decisions, seed))


def _is_complete(column: MetricColumn) -> bool:
    """Whether it has a value for every model, and not one for all."""
    return bool(column.present.all()) and bool(np.ptp(column.values) > 0)


def _may_be_chosen(column: MetricColumn, unofficial: bool) -> bool:
    return column.kind == "variant" and (column.admissible or unofficial)


def _ranked(
    table: MetricTable, decisions: Decisions, place: int, near_best: bool, lead: _Lead
) -> RankedMetric:
    """The row of the column at a place of the table."""
    column = table.columns[place]
    verdict, fewer = decisions.verdict(place), table.fewer_documents(column)
    return RankedMetric(
        column=column,
        rho=spearman(column.oriented[column.present], table.target[column.present]),
        interval=decisions.overall.interval(place),
        p_adjusted=float(decisions.overall.p[place]),
        within_rho=float(decisions.within.rho[place]),
        within_interval=decisions.within.interval(place),
        p_within=float(decisions.within.p[place]),
        verdict="uneven-documents" if fewer and verdict == "tracks" else verdict,
        evidence=decisions.evidence(place),
        fewer=fewer,
        near_best=near_best,
        minus_baseline=lead.difference,
        p_beats_baseline=lead.p,
        leads=lead.is_significant and verdict == "tracks" and not fewer,
        partial=_partial(table, column),
        alike=() if column.kind == "variant" else _most_alike(column, table),
    )


def _choice(
    columns: Sequence[MetricColumn],
    baseline: MetricColumn | None,
    table: MetricTable,
    seed: int,
    splits: int,
) -> ChoiceProcedure:
    """What choosing among these columns is worth, and what the baseline is."""
    return choice_procedure(
        np.stack([column.oriented for column in columns]),
        table.target,
        [table.families, table.developers],
        seed,
        splits,
        next((place for place, column in enumerate(columns) if column is baseline), None),
    )


def default_baseline(columns: Sequence[MetricColumn], named: str = "") -> MetricColumn | None:
    """The baseline that the problem names; else a perplexity variant with all values.

    Of perplexity's variants the first by name, preferably one that is comparable across
    tokenizers. Without perplexity, parameters × tokens.
    """
    possible = [column for column in columns if column.kind == "variant"]
    if named:
        return next((c for c in possible if c.name == named), None)
    for metric in BASELINES:
        candidates = [c for c in possible if c.metric == metric]
        preferred = [c for c in candidates if "byte" in c.variant or "tokens" in c.variant]
        if candidates:
            return min(preferred or candidates, key=lambda column: column.name)
    return None


def _compared(
    table: MetricTable,
    candidates: Sequence[MetricColumn],
    complete: Sequence[MetricColumn],
    baseline: MetricColumn | None,
    comparable: bool,
) -> tuple[set[MetricColumn], dict[MetricColumn, _Lead]]:
    """Which candidates may be the best, and the lead of each complete column over the baseline.

    Where the models are too few for any claim, every candidate may be the best.
    """
    if not (comparable and candidates):
        return set(candidates), {}
    groupings = [table.families, *table.groupings]

    def errors(columns: Sequence[MetricColumn]) -> Any:
        return joint_errors(
            np.stack([column.oriented for column in columns]), table.target, groupings
        )

    near_best = set(compress(candidates, indistinguishable(errors(candidates))))
    if baseline is None:
        return near_best, {}
    place = next(i for i, column in enumerate(complete) if column is baseline)
    of_complete = errors(complete)
    p, ahead = ahead_of(of_complete, place, table.series_across_families)
    differences = of_complete.rho - of_complete.rho[place]
    return near_best, {
        column: _Lead(float(difference), float(one_p), bool(is_ahead))
        for column, difference, one_p, is_ahead in zip(complete, differences, p, ahead, strict=True)
    }


def _partial(table: MetricTable, column: MetricColumn) -> float:
    known = np.isfinite(table.log_parameters) & column.present
    if known.sum() < MINIMUM_OF_PARTIAL:
        return math.nan
    return partial_spearman(
        column.oriented[known], table.target[known], table.log_parameters[known]
    )


def _most_alike(
    column: MetricColumn, table: MetricTable, most: int = 3
) -> tuple[tuple[MetricColumn, float], ...]:
    """The variants whose Spearman with a column is largest in size, over the models of both."""
    alike = []
    for other in table.columns:
        both = column.present & other.present
        rho = spearman(column.oriented[both], other.oriented[both])
        if other.kind == "variant" and not math.isnan(rho):
            alike.append((other, rho))
    return tuple(sorted(alike, key=lambda pair: (-round(abs(pair[1]), 10), pair[0].name))[:most])
