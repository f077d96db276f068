"""The verdict over a problem's variants: what is signal, what may be luck, and who wins, if any.

The rule for a winner is in `analysis.statistics.winner`; here it meets the problem's metrics,
the baseline and the words for what failed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.bootstrap import draw
from analysis.statistics.comparison import Difference, SwapTest, difference, swap_test
from analysis.statistics.correlations import partial_spearman, spearman
from analysis.statistics.permutation import max_test
from analysis.statistics.selection import DEFAULT_SPLITS, Splits, repeated_splits
from analysis.statistics.winner import SAME_RANKING, Failure, Ruling, rule
from warehouse.errors import TokenmartError

MINIMUM_MODELS = 8
DIFFERENCE_RESAMPLES = 10_000
BASELINE_METRIC = "perplexity"


@dataclass(frozen=True)
class Candidate:
    """One variant's line. `place` orders by mean held-out correlation, best first."""

    column: MetricColumn
    rho: float
    p_adjusted: float
    p_in_family: float
    held_out: float
    chosen_share: float
    partial: float
    beats_baseline: float
    p_beats_baseline: float


@dataclass(frozen=True)
class Verdict:
    """Everything `tokenmart select` has to say about a problem.

    candidates: best held-out correlation first.
    best: the variant the rule takes on all models.
    winner: the same when every condition holds, else None; `reasons` says which failed.
    ruling: the figures behind that.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate
    winner: Candidate | None
    reasons: tuple[str, ...]
    models: int
    incomplete: tuple[str, ...]
    inadmissible: tuple[str, ...]
    baseline: MetricColumn | None
    ruling: Ruling
    splits: Splits
    beats: SwapTest | None
    best_minus_baseline: Difference | None
    seed: int


def judge(
    table: MetricTable,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    unofficial: bool = False,
    baseline: MetricColumn | None = None,
) -> Verdict:
    """Judge all complete variants of a problem.

    Args:
        table: of the problem.
        seed: of splits and permutations.
        splits: random train/test splits.
        unofficial: let variants compete that need a second model.
        baseline: what the others are compared with; by default the first perplexity.

    Raises:
        TokenmartError: too few models or no complete variant.
    """
    size = len(table.models)
    if size < MINIMUM_MODELS:
        raise TokenmartError(
            f"{table.problem}: {size} models have a target score; selection needs {MINIMUM_MODELS}"
        )
    allowed = [c for c in table.columns if c.admissible or unofficial]
    complete = [c for c in allowed if c.present.all() and np.ptp(c.values) > 0]
    if not complete:
        raise TokenmartError(
            f"{table.problem}: no variant has a value for all {size} models; "
            f"see `tokenmart status --problem {table.problem}`"
        )
    metrics = np.stack([column.oriented for column in complete])
    base = baseline or _default_baseline(complete)
    base_index = next((i for i, c in enumerate(complete) if c is base), None)
    ruling = rule(metrics, table.target, table.families, [c.metric for c in complete], seed)
    families = [column.family for column in complete]
    p_in_family = np.empty(len(complete))
    for family in set(families):
        rows = np.flatnonzero([family == f for f in families])
        p_in_family[rows] = max_test(metrics[rows], table.target, seed).p_adjusted
    parts = repeated_splits(metrics, table.target, seed, splits, base_index)
    beats = None if base is None else swap_test(metrics, base.oriented, table.target, seed)
    candidates = [
        Candidate(
            column=column,
            rho=spearman(column.oriented, table.target),
            p_adjusted=float(ruling.overall.p_adjusted[i]),
            p_in_family=float(p_in_family[i]),
            held_out=float(parts.variant_test[i]),
            chosen_share=float((parts.chosen == i).mean()),
            partial=_partial(table, column),
            beats_baseline=float(beats.difference[i]) if beats else math.nan,
            p_beats_baseline=float(beats.p_adjusted[i]) if beats else math.nan,
        )
        for i, column in enumerate(complete)
    ]
    best = candidates[ruling.best]
    reasons = tuple(_reason(failure, best, ruling) for failure in ruling.failures)
    return Verdict(
        candidates=tuple(sorted(candidates, key=lambda c: -c.held_out)),
        best=best,
        winner=None if reasons else best,
        reasons=reasons,
        models=size,
        incomplete=tuple(c.name for c in allowed if c not in complete),
        inadmissible=tuple(c.name for c in table.columns if c not in allowed),
        baseline=base,
        ruling=ruling,
        splits=parts,
        beats=beats,
        best_minus_baseline=_against(base, best.column, table, seed),
        seed=seed,
    )


def _reason(failure: Failure, best: Candidate, ruling: Ruling) -> str:
    """Why there is no winner, in words."""
    name, stability = best.column.name, ruling.stability
    reasons: dict[Failure, str] = {
        "luck": f"the best of the variants ({name}, rho {best.rho:+.2f}) may be luck: adjusted "
        f"p = {best.p_adjusted:.3f}",
        "families": f"{name} (rho {best.rho:+.2f}) may only tell model families apart: permuting "
        f"within families, adjusted p = {ruling.p_within_families:.3f}",
        "model_left_out": "chosen without a model, the choice doesn't place that model (held-out "
        f"rho {ruling.by_model.held_out:+.2f})",
        "family_left_out": "chosen without a family, the choice doesn't place that family "
        f"(held-out rho {ruling.by_family.held_out:+.2f})",
        "unstable": f"the choice isn't stable: in {stability.same_ranking:.0%} of the folds that "
        f"leave one model out, what is chosen ranks the models as {name} does (Spearman "
        f"{SAME_RANKING} or more)",
    }
    return reasons[failure]


def _default_baseline(columns: list[MetricColumn]) -> MetricColumn | None:
    """The first perplexity variant, preferring one that is comparable across tokenizers."""
    found = [c for c in columns if c.metric == BASELINE_METRIC]
    by_byte = [c for c in found if "byte" in c.variant]
    return next(iter(by_byte or found), None)


def _against(
    base: MetricColumn | None, best: MetricColumn, table: MetricTable, seed: int
) -> Difference | None:
    """The best variant against the baseline, with intervals; None when they are the same."""
    if base is None or base is best:
        return None
    draws = draw(len(table.models), DIFFERENCE_RESAMPLES, seed)
    return difference(best.oriented, base.oriented, table.target, draws)


def _partial(table: MetricTable, column: MetricColumn) -> float:
    known = np.isfinite(table.log_parameters)
    if known.sum() < MINIMUM_MODELS:
        return math.nan
    return partial_spearman(
        column.oriented[known], table.target[known], table.log_parameters[known]
    )
