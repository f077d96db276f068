"""The choice of a metric: what each variant is worth on held-out models, and which wins, if any.

The conditions for a winner are in `analysis.statistics.winner`; here they meet the problem's
metrics, the baseline and the words for what failed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.ranking.coverage import fewer_documents, fewer_text
from analysis.ranking.documents import DocumentNoise, PartsOf, document_noise
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.registered import RegisteredResult, registered_results
from analysis.statistics.after_choice import WinnerInterval, interval_after_choice, winner_interval
from analysis.statistics.bootstrap import Estimate, Interval, draw
from analysis.statistics.comparison import SwapTest, difference, swap_test
from analysis.statistics.correlations import partial_spearman, spearman
from analysis.statistics.document_noise import noise_ceiling
from analysis.statistics.pooling import NewFamily, new_family
from analysis.statistics.selection import DEFAULT_SPLITS, LeftOut, Splits, repeated_splits
from analysis.statistics.winner import SAME_RANKING, Condition, WinnerConditions, winner_conditions
from warehouse.errors import TokenmartError

MINIMUM_MODELS = 8
DIFFERENCE_RESAMPLES = 10_000
BASELINE_METRIC = "perplexity"


@dataclass(frozen=True)
class Candidate:
    """One variant that may be chosen, with everything known about it.

    interval: of rho, allowing for groups of models and for the choice among everything tried.
    p_adjusted: against the best of everything that was ever tried.
    held_out: mean test rho over the random splits; chosen_share: of the splits that chose it.
    partial: Spearman given log parameters; minus_baseline: rho minus that of the baseline.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    """

    column: MetricColumn
    rho: float
    interval: Interval
    p_adjusted: float
    held_out: float
    chosen_share: float
    partial: float
    minus_baseline: float
    p_beats_baseline: float
    fewer: dict[str, int]


@dataclass(frozen=True)
class MetricSelection:
    """Everything `tokenmart select` has to say about a problem.

    candidates: best held-out correlation first.
    best: the variant with the largest |rho| over all models.
    winner: the same when every condition holds and all its values rest on equally many documents,
        else None; `reasons` says which failed.
    conditions: the figures behind that.
    tries: how much was ever tried for the problem, see `MetricTable.tries`; every p counts it.
    incomplete, inadmissible: names of variants that could not compete.
    swap_test: whether candidates beat the baseline, families swapped as wholes; None without one.
    after_choice: what may be said of the best one's rho, although it was chosen.
    new_family: the same for a model of another family.
    documents: what drawing other documents does to it; None without them.
    noise_ceiling: what a perfect metric may reach against this target, NaN where unknown.
    registered: preregistered metrics, tested first.
    families, kinds: how many groups of models there are.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate
    winner: Candidate | None
    reasons: tuple[str, ...]
    models: int
    tries: dict[str, int]
    tries_text: str
    incomplete: tuple[str, ...]
    inadmissible: tuple[str, ...]
    baseline: MetricColumn | None
    conditions: WinnerConditions
    splits: Splits
    swap_test: SwapTest | None
    best_minus_baseline: Estimate | None
    after_choice: WinnerInterval
    new_family: NewFamily
    documents: DocumentNoise | None
    noise_ceiling: float
    registered: tuple[RegisteredResult, ...]
    families: int
    kinds: int
    seed: int


def select_metric(
    table: MetricTable,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    unofficial: bool = False,
    baseline: MetricColumn | None = None,
    parts_of: PartsOf | None = None,
) -> MetricSelection:
    """Compare all complete variants of a problem and choose one, if any may be chosen.

    Args:
        table: of the problem.
        seed: of splits and permutations.
        splits: random train/test splits.
        unofficial: let variants compete that need a second model.
        baseline: what the others are compared with; by default the first perplexity.
        parts_of: reads a column's documents; None to take the documents as they are.

    Raises:
        TokenmartError: too few models or no complete variant.
    """
    size = len(table.models)
    if size < MINIMUM_MODELS:
        raise TokenmartError(
            f"{table.problem}: {size} models have a target score; selection needs "
            f"{MINIMUM_MODELS}; score more models, or compare metrics with "
            f"`tokenmart correlate --problem {table.problem}`"
        )
    variants = [c for c in table.columns if c.kind == "variant"]
    allowed = [c for c in variants if c.admissible or unofficial]
    complete = [c for c in allowed if _may_be_chosen(c)]
    if not complete:
        raise TokenmartError(
            f"{table.problem}: no variant has a value for all {size} models; "
            f"see `tokenmart status --problem {table.problem}`"
        )
    # Built once and no longer there: they can't win, but choices were made among them, too.
    earlier = [c for c in table.tried if (c.admissible or unofficial) and _may_be_chosen(c)]
    rivals = [*complete, *earlier]
    counted = [c for c in table.everything if c not in rivals]
    metrics = np.stack([column.oriented for column in rivals])
    others = np.array([c.oriented for c in counted]).reshape(-1, size)
    base = baseline or _default_baseline(complete)
    base_index = next((i for i, c in enumerate(complete) if c is base), None)
    conditions = winner_conditions(
        metrics,
        table.target,
        table.families,
        [c.metric for c in rivals],
        seed,
        kinds=table.kinds,
        candidates=len(complete),
        counted=others,
    )
    parts = repeated_splits(metrics, table.target, seed, splits, base_index)
    tested = np.vstack([metrics, others[np.ptp(others, axis=1) > 0]])  # not those with a NaN
    swaps = None
    if base is not None:
        swaps = swap_test(tested, base.oriented, table.target, seed, clusters=table.families)
    groupings = [table.families, table.kinds]
    top = complete[conditions.best]
    noise = document_noise(parts_of(top), table, top, seed) if parts_of else None
    after_choice = winner_interval(tested, table.target, groupings, seed, chosen=conditions.best)
    candidates = [
        Candidate(
            column=column,
            rho=spearman(column.oriented, table.target),
            interval=after_choice.interval
            if i == conditions.best
            else interval_after_choice(
                column.oriented, table.target, after_choice.critical, after_choice.design_effect
            ),
            p_adjusted=float(conditions.overall.p_adjusted[i]),
            held_out=float(parts.variant_test[i]),
            chosen_share=float((parts.chosen == i).mean()),
            partial=_partial(table, column),
            minus_baseline=float(swaps.difference[i]) if swaps else math.nan,
            p_beats_baseline=float(swaps.p_adjusted[i]) if swaps else math.nan,
            fewer=fewer_documents(table, column),
        )
        for i, column in enumerate(complete)
    ]
    best = candidates[conditions.best]
    reasons = tuple(_reason(condition, best, conditions) for condition in conditions.failed)
    if "beats_chance_within_families" in conditions.untestable:
        reasons += (
            f"too few independent groups for any claim: {len(set(table.families))} families and "
            f"{len(set(table.kinds))} kinds of models can be arranged in {conditions.arrangements} "
            "ways only",
        )
    if best.fewer:
        reasons += (
            f"{best.column.name} compares models on different documents "
            f"({fewer_text(table, best.column)}): run `tokenmart extract --problem "
            f"{table.problem}` and `tokenmart dbt build`",
        )
    return MetricSelection(
        candidates=tuple(sorted(candidates, key=lambda c: -c.held_out)),
        best=best,
        winner=best if conditions.wins and not best.fewer else None,
        reasons=reasons,
        models=size,
        tries=table.tries,
        tries_text=table.tries_text,
        incomplete=tuple(c.name for c in allowed if c not in complete),
        inadmissible=tuple(c.name for c in variants if c not in allowed),
        baseline=base,
        conditions=conditions,
        splits=parts,
        swap_test=swaps,
        best_minus_baseline=_against(base, best.column, table, seed),
        after_choice=after_choice,
        new_family=new_family(
            top.oriented, table.target, table.families, table.kinds, after_choice.critical
        ),
        documents=noise,
        noise_ceiling=noise_ceiling(table.target, table.target_errors),
        registered=registered_results(table),
        families=len(set(table.families)),
        kinds=len(set(table.kinds)),
        seed=seed,
    )


def _may_be_chosen(column: MetricColumn) -> bool:
    """Whether it is a variant that has a value for every model, not the same for all."""
    return column.kind == "variant" and bool(column.present.all() and np.ptp(column.values) > 0)


def _reason(failed: Condition, best: Candidate, conditions: WinnerConditions) -> str:
    """Why there is no winner, in words."""
    name, stability = best.column.name, conditions.stability
    reasons: dict[Condition, str] = {
        "beats_chance": (
            f"the best of the variants ({name}, rho {best.rho:+.2f}) may be luck: p, adjusted for "
            f"everything that was tried, = {best.p_adjusted:.3f}"
        ),
        "beats_chance_within_families": (
            f"{name} (rho {best.rho:+.2f}) may only tell groups of models apart: permuting series "
            f"within families, adjusted p = {conditions.p_within_families:.3f}"
        ),
        "places_left_out_models": _unplaced("model", conditions.by_model),
        "places_left_out_kinds": _unplaced("kind of models", conditions.by_kind),
        "places_left_out_families": _unplaced("family", conditions.by_family),
        "stable_choice": (
            f"the choice isn't stable: in {stability.same_ranking:.0%} of the folds that leave one "
            f"model out, what is chosen ranks the models as {name} does (Spearman {SAME_RANKING} "
            "or more)"
        ),
    }
    return reasons[failed]


def _unplaced(what: str, found: LeftOut) -> str:
    return (
        f"chosen without a {what}, the choice places it no better than by luck (held-out rho "
        f"{found.held_out:+.2f}, p = {found.p:.3f})"
    )


def _default_baseline(columns: list[MetricColumn]) -> MetricColumn | None:
    """The first perplexity variant, preferring one that is comparable across tokenizers."""
    found = [c for c in columns if c.metric == BASELINE_METRIC]
    by_byte = [c for c in found if "byte" in c.variant]
    return next(iter(by_byte or found), None)


def _against(
    base: MetricColumn | None, best: MetricColumn, table: MetricTable, seed: int
) -> Estimate | None:
    """The best variant against the baseline, with intervals; None when they are the same."""
    if base is None or base is best:
        return None
    draws = draw(len(table.models), DIFFERENCE_RESAMPLES, seed, table.families)
    return difference(best.oriented, base.oriented, table.target, draws, table.families)


def _partial(table: MetricTable, column: MetricColumn) -> float:
    known = np.isfinite(table.log_parameters)
    if known.sum() < MINIMUM_MODELS:
        return math.nan
    return partial_spearman(
        column.oriented[known], table.target[known], table.log_parameters[known]
    )
