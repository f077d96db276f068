"""The choice of a metric: which metrics track the target, and which may be the best of them.

Inference is in `analysis.statistics.simultaneous`; here it meets the problem's metrics, the
baseline and the preregistered metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.ranking.coverage import fewer_documents, fewer_text
from analysis.ranking.documents import DocumentNoise, PartsOf, document_noise
from analysis.ranking.inference import Inference, infer
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.registered import RegisteredResult, registered_results
from analysis.statistics.bootstrap import Interval
from analysis.statistics.comparison import Lead, lead_over
from analysis.statistics.correlations import partial_spearman
from analysis.statistics.document_noise import noise_ceiling
from analysis.statistics.pooling import NewFamily, new_family
from analysis.statistics.selection import DEFAULT_SPLITS, Splits, repeated_splits
from analysis.statistics.simultaneous import indistinguishable, joint_errors, p_above
from warehouse.errors import TokenmartError

MINIMUM_MODELS = 8
BASELINES = ("perplexity", "no_evaluation")
"""Metrics that others are compared with; the second one, where scores were made elsewhere, is what
is known of a run without evaluating it."""


@dataclass(frozen=True)
class Candidate:
    """One variant that may be chosen, with everything known about it.

    rho: Spearman over all models; interval: of it, allowing for groups of models and for the choice
        among all metrics tested; p_adjusted: likewise.
    within_rho, within_interval, p_within: the same within families; NaN with one model each.
    evidence: where its interval excludes 0: it tracks the target.
    near_best: whether it can't be distinguished from the best.
    held_out: mean test rho over the random splits.
    partial: Spearman given log parameters.
    minus_baseline: rho minus that of the baseline; p_beats_baseline: one-sided, adjusted for all
        candidates.
    fewer: full id → documents, of the models whose value rests on fewer than that of another;
        uneven: the same in words.
    row: its place in `table.everything`.
    """

    column: MetricColumn
    row: int
    rho: float
    interval: Interval
    p_adjusted: float
    within_rho: float
    within_interval: Interval
    p_within: float
    evidence: tuple[str, ...]
    near_best: bool
    held_out: float
    partial: float
    minus_baseline: float
    p_beats_baseline: float
    fewer: dict[str, int]
    uneven: str

    @property
    def tracks(self) -> bool:
        """Whether it tracks the target: by evidence, on the same documents."""
        return bool(self.evidence) and not self.fewer


@dataclass(frozen=True)
class MetricSelection:
    """Everything `tokenmart select` reports about a problem.

    option: the value of `--problem`. candidates: largest rho first.
    inference: of all metrics ever tested for the problem; every p counts them.
    tries: their number by kind, see `MetricTable.tries`.
    incomplete, inadmissible: names of variants that could not compete.
    best_lead: of the best candidate over the baseline, not adjusted for the choice.
    new_family: what the best one's rho may be for a model of another family.
    documents: what drawing other documents does to it; None without them.
    noise_ceiling: what a perfect metric may reach against this target, NaN where unknown.
    registered: the preregistered metrics, tested apart.
    families, kinds, series: how many groups of models there are; a series is a kind of one family.
    """

    problem: str
    option: str
    candidates: tuple[Candidate, ...]
    inference: Inference
    models: int
    tries: dict[str, int]
    tries_text: str
    incomplete: tuple[str, ...]
    inadmissible: tuple[str, ...]
    baseline: MetricColumn | None
    splits: Splits
    best_lead: Lead | None
    new_family: NewFamily
    documents: DocumentNoise | None
    noise_ceiling: float
    registered: tuple[RegisteredResult, ...]
    families: int
    kinds: int
    series: int
    seed: int

    @property
    def best(self) -> Candidate:
        """The candidate with the largest rho."""
        return self.candidates[0]

    @property
    def tracking(self) -> tuple[Candidate, ...]:
        """Those that track the target, largest rho first."""
        return tuple(c for c in self.candidates if c.tracks)

    @property
    def near_best(self) -> tuple[Candidate, ...]:
        """Those that can't be distinguished from the best, largest rho first."""
        return tuple(c for c in self.candidates if c.near_best)


def select_metric(
    table: MetricTable,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    unofficial: bool = False,
    baseline: MetricColumn | None = None,
    parts_of: PartsOf | None = None,
) -> MetricSelection:
    """Compare all complete variants of a problem with its target and with each other.

    Args:
        table: of the problem.
        seed: of splits, permutations and resamples.
        splits: random train/test splits.
        unofficial: let variants compete that need a second model.
        baseline: what the others are compared with; by default that of the problem.
        parts_of: reads a column's documents; None to take the documents as they are.

    Raises:
        TokenmartError: too few models or no complete variant.
    """
    size = len(table.models)
    if size < MINIMUM_MODELS:
        raise TokenmartError(
            f"{table.problem}: {size} models have a target score; selection needs "
            f"{MINIMUM_MODELS}; score more models, or compare metrics with "
            f"`tokenmart correlate --problem {table.option}`"
        )
    variants = [c for c in table.columns if c.kind == "variant"]
    allowed = [c for c in variants if c.admissible or unofficial]
    complete = [c for c in allowed if _may_be_chosen(c)]
    if not complete:
        raise TokenmartError(
            f"{table.problem}: no variant has a value for all {size} models; "
            f"see `tokenmart status --problem {table.option}`"
        )
    # Built once and no longer there: they can't win, but choices were made among them, too.
    earlier = [c for c in table.tried if (c.admissible or unofficial) and _may_be_chosen(c)]
    base = baseline or default_baseline(complete, table.baseline)
    base_index = next((i for i, c in enumerate(complete) if c is base), None)
    inference = infer(table)
    rows = {id(column): row for row, column in enumerate(table.everything)}
    own = joint_errors(
        np.stack([c.oriented for c in complete]), table.target, [table.families, table.kinds]
    )
    near = indistinguishable(own)
    beats = np.full(len(complete), math.nan) if base_index is None else p_above(own, base_index)
    parts = repeated_splits(
        np.stack([c.oriented for c in (*complete, *earlier)]),
        table.target,
        seed,
        splits,
        base_index,
    )
    candidates = [
        Candidate(
            column=column,
            row=row,
            rho=inference.rho(row),
            interval=inference.interval(row),
            p_adjusted=float(inference.p[row]),
            within_rho=float(inference.within.rho[row]),
            within_interval=inference.within_interval(row),
            p_within=float(inference.p_within[row]),
            evidence=inference.evidence(row),
            near_best=bool(near[i]),
            held_out=float(parts.variant_test[i]),
            partial=_partial(table, column),
            minus_baseline=math.nan if base_index is None else own.rho[i] - own.rho[base_index],
            p_beats_baseline=float(beats[i]),
            fewer=fewer_documents(table, column),
            uneven=fewer_text(table, column),
        )
        for i, (column, row) in enumerate((c, rows[id(c)]) for c in complete)
    ]
    # equal correlations: by name, not by the order of columns
    candidates.sort(key=lambda c: (-round(c.rho, 10), c.column.name))
    top = candidates[0].column
    return MetricSelection(
        problem=table.problem,
        option=table.option,
        candidates=tuple(candidates),
        inference=inference,
        models=size,
        tries=table.tries,
        tries_text=table.tries_text,
        incomplete=tuple(c.name for c in allowed if c not in complete),
        inadmissible=tuple(c.name for c in variants if c not in allowed),
        baseline=base,
        splits=parts,
        best_lead=_lead(top, base, table, seed),
        new_family=new_family(
            top.oriented, table.target, table.families, table.kinds, inference.critical
        ),
        documents=document_noise(parts_of(top), table, top, seed) if parts_of else None,
        noise_ceiling=noise_ceiling(table.target, table.target_errors),
        registered=registered_results(table, base),
        families=len(set(table.families)),
        kinds=len(set(table.kinds)),
        series=len(set(table.series)),
        seed=seed,
    )


def _may_be_chosen(column: MetricColumn) -> bool:
    """Whether it is a variant that has a value for every model, not the same for all."""
    return column.kind == "variant" and bool(column.present.all() and np.ptp(column.oriented) > 0)


def default_baseline(columns: Sequence[MetricColumn], named: str = "") -> MetricColumn | None:
    """The baseline that the problem names; else a perplexity variant with all values.

    Of perplexity's variants the first by name, preferably one that is comparable across
    tokenizers. Without perplexity, parameters × tokens.
    """
    if named:
        return next((c for c in columns if c.name == named and _may_be_chosen(c)), None)
    for metric in BASELINES:
        found = [c for c in columns if c.metric == metric and _may_be_chosen(c)]
        preferred = [c for c in found if "byte" in c.variant or "tokens" in c.variant]
        if found:
            return min(preferred or found, key=lambda column: column.name)
    return None


def _lead(
    column: MetricColumn, base: MetricColumn | None, table: MetricTable, seed: int
) -> Lead | None:
    """A column over the baseline; None when they are the same."""
    if base is None or base is column:
        return None
    return lead_over(
        column.oriented, base.oriented, table.target, table.families, table.series, seed
    )


def _partial(table: MetricTable, column: MetricColumn) -> float:
    known = np.isfinite(table.log_parameters)
    if known.sum() < MINIMUM_MODELS:
        return math.nan
    return partial_spearman(
        column.oriented[known], table.target[known], table.log_parameters[known]
    )
