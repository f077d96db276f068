"""The choice of a metric: which metrics track the target, and which may be the best of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.ranking.leaderboard import (
    MINIMUM_MODELS,
    TestedMetric,
    best_first,
    default_baseline,
    infer_all,
    may_be_chosen,
    noise_of,
    tested_metrics,
)
from analysis.ranking.metric_table import MetricColumn, MetricTable, PartsOf
from analysis.ranking.registered import RegisteredResult, registered_results
from analysis.statistics.correlations import partial_spearman
from analysis.statistics.document_noise import DocumentNoise, noise_ceiling
from analysis.statistics.families import NewFamily, new_family
from analysis.statistics.preregistered_tests import Lead, lead_over
from analysis.statistics.resampling import DEFAULT_SPLITS, Splits, repeated_splits
from analysis.statistics.simultaneous import Inference, indistinguishable, joint_errors, p_above
from warehouse.errors import TokenmartError


@dataclass(frozen=True, kw_only=True)
class Candidate(TestedMetric):
    """One variant that may be chosen.

    near_best: whether it can't be distinguished from the best.
    held_out: mean test rho over the random splits.
    partial: Spearman given log parameters.
    minus_baseline: rho minus that of the baseline; p_beats_baseline: one-sided, adjusted for all
        candidates.
    """

    near_best: bool
    held_out: float
    partial: float
    minus_baseline: float
    p_beats_baseline: float


@dataclass(frozen=True)
class MetricSelection:
    """Everything `tokenmart select` reports about a problem.

    candidates: largest rho first.
    inference: of all metrics ever tested for the problem; every p counts them.
    incomplete, inadmissible: names of variants that could not compete.
    best_lead: of the best candidate over the baseline, not adjusted for the choice.
    new_family: what the best one's rho may be for a model of another family.
    documents: what drawing other documents does to it; None without them.
    noise_ceiling: what a perfect metric may reach against this target, NaN where unknown.
    registered: the preregistered metrics, tested apart.
    """

    table: MetricTable
    candidates: tuple[Candidate, ...]
    inference: Inference
    incomplete: tuple[str, ...]
    inadmissible: tuple[str, ...]
    baseline: Candidate | None
    splits: Splits
    best_lead: Lead | None
    new_family: NewFamily
    documents: DocumentNoise | None
    noise_ceiling: float
    registered: tuple[RegisteredResult, ...]
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
    parts_of: PartsOf | None = None,
) -> MetricSelection:
    """Compare all complete variants of a problem with its target and with each other.

    Args:
        table: of the problem.
        seed: of splits, permutations and resamples.
        splits: random train/test splits.
        unofficial: let variants compete that need a second model.
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
    complete = [c for c in allowed if may_be_chosen(c)]
    if not complete:
        raise TokenmartError(
            f"{table.problem}: no variant has a value for all {size} models; "
            f"see `tokenmart {'status' if table.extracted else 'correlate'} --problem "
            f"{table.option}`"
        )
    # Built once and no longer there: they can't win, but choices were made among them, too.
    earlier = [c for c in table.tried if (c.admissible or unofficial) and may_be_chosen(c)]
    base = default_baseline(complete, table.baseline)
    base_index = next((i for i, c in enumerate(complete) if c is base), None)
    inference = infer_all(table)
    tested = {id(metric.column): metric for metric in tested_metrics(table, inference)}
    metrics = np.stack([c.oriented for c in complete])
    own = joint_errors(metrics, table.target, [table.families, table.kinds])
    near = indistinguishable(own)
    beats = np.full(len(complete), math.nan) if base_index is None else p_above(own, base_index)
    every = np.stack([c.oriented for c in (*complete, *earlier)])
    parts = repeated_splits(every, table.target, seed, splits, base_index)
    candidates = [
        Candidate(
            **vars(tested[id(column)]),
            near_best=bool(near[i]),
            held_out=float(parts.variant_test[i]),
            partial=_partial(table, column),
            minus_baseline=math.nan if base_index is None else own.rho[i] - own.rho[base_index],
            p_beats_baseline=float(beats[i]),
        )
        for i, column in enumerate(complete)
    ]
    candidates.sort(key=best_first)
    top = candidates[0].column
    return MetricSelection(
        table=table,
        candidates=tuple(candidates),
        inference=inference,
        incomplete=tuple(c.name for c in allowed if not may_be_chosen(c)),
        inadmissible=tuple(c.name for c in variants if not (c.admissible or unofficial)),
        baseline=next((c for c in candidates if c.column is base), None),
        splits=parts,
        best_lead=None
        if base is None or base is top
        else lead_over(
            top.oriented, base.oriented, table.target, table.families, table.series, seed
        ),
        new_family=new_family(
            top.oriented, table.target, table.families, table.kinds, inference.overall.critical
        ),
        documents=noise_of(top, table, parts_of, seed),
        noise_ceiling=noise_ceiling(table.target, table.target_errors),
        registered=registered_results(table, base),
        seed=seed,
    )


def _partial(table: MetricTable, column: MetricColumn) -> float:
    known = np.isfinite(table.log_parameters)
    if known.sum() < MINIMUM_MODELS:
        return math.nan
    return partial_spearman(
        column.oriented[known], table.target[known], table.log_parameters[known]
    )
