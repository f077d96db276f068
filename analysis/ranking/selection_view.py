"""The selection as JSON and as a table in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.ranking.leaderboard import interval_record, new_family_record, number
from analysis.ranking.metric_selection import Candidate, MetricSelection
from analysis.ranking.registered import registered_record
from analysis.statistics.bootstrap import Interval
from analysis.statistics.winner import MINIMUM_GROUPS, SAME_RANKING, Condition
from warehouse.errors import visible
from warehouse.terminal import print_whole


def selection_record(selection: MetricSelection, shown: Sequence[str] = ()) -> dict[str, Any]:
    """The selection as JSON-ready values; of the candidates, those of the metrics `shown`."""
    splits, conditions = selection.splits, selection.conditions
    stability = conditions.stability
    return {
        "models": selection.models,
        "variants": len(selection.candidates),
        "tried": selection.tries,
        "tested": conditions.overall.tested,
        "winner": None if selection.winner is None else selection.winner.column.name,
        "best": selection.best.column.name,
        "reasons": list(selection.reasons),
        "p_adjusted": number(selection.best.p_adjusted),
        "p_adjusted_within_model_families": number(conditions.p_within_families),
        "stability": {
            "folds": stability.folds,
            "same_variant": number(stability.same_variant),
            "same_metric": number(stability.same_metric),
            "same_ranking": number(stability.same_ranking),
            "distinct_choices": len({choice.variant for choice in conditions.by_model.choices}),
        },
        "held_out": {
            "leave_one_model_out": number(conditions.by_model.held_out),
            "leave_one_model_out_p": number(conditions.by_model.p),
            "leave_one_kind_out": number(conditions.by_kind.held_out),
            "leave_one_kind_out_p": number(conditions.by_kind.p),
            "leave_one_family_out": number(conditions.by_family.held_out),
            "leave_one_family_out_p": number(conditions.by_family.p),
            "leave_one_family_out_models": conditions.by_family.covered,
            "splits": len(splits.chosen),
            "splits_mean": number(splits.held_out),
            "splits_in_sample_mean": number(splits.held_out + splits.optimism),
            "optimism": number(splits.optimism),
            "baseline_splits_mean": number(splits.baseline_held_out),
            "beats_baseline_share_of_splits": number(splits.beats_baseline),
        },
        "not_testable": list(conditions.untestable),
        "groups": {"families": selection.families, "kinds": selection.kinds},
        "after_choice": {
            "spearman": number(selection.best.rho),
            "ci95": interval_record(selection.after_choice.interval),
            "optimism": number(selection.after_choice.optimism),
            "critical": number(selection.after_choice.critical),
        },
        "new_family": new_family_record(selection.new_family),
        "documents": None
        if selection.documents is None
        else {
            "documents": selection.documents.documents,
            "ci95_new_documents": interval_record(selection.documents.sources.documents),
            "ci95_new_documents_and_models": interval_record(selection.documents.sources.both),
            "reliability": number(selection.documents.sources.reliability),
            "soft_pairwise_accuracy": number(selection.documents.soft_pairs),
        },
        "noise_ceiling_pearson": number(selection.noise_ceiling),
        "preregistered": [registered_record(result) for result in selection.registered],
        "baseline": None if selection.baseline is None else selection.baseline.name,
        "best_minus_baseline": _difference_record(selection),
        "incomplete": list(selection.incomplete),
        "inadmissible": list(selection.inadmissible),
        "seed": selection.seed,
        "candidates": [_candidate_record(candidate) for candidate in _of(selection, shown)],
    }


def _difference_record(selection: MetricSelection) -> dict[str, Any] | None:
    found = selection.best_minus_baseline
    if found is None:
        return None
    return {
        "value": number(found.value),
        "ci95": interval_record(found.percentile),
        "ci95_bca": interval_record(found.bca),
    }


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    return {
        "metric": candidate.column.metric,
        "variant": candidate.column.variant,
        "family": candidate.column.family,
        "direction": candidate.column.direction,
        "held_out": number(candidate.held_out),
        "spearman": number(candidate.rho),
        "spearman_ci95_after_choice": interval_record(candidate.interval),
        "chosen_share": number(candidate.chosen_share),
        "p_adjusted": number(candidate.p_adjusted),
        "partial_given_log_parameters": number(candidate.partial),
        "minus_baseline": number(candidate.minus_baseline),
        "p_beats_baseline": number(candidate.p_beats_baseline),
        "models_with_fewer_documents": candidate.fewer,
    }


def print_selection(selection: MetricSelection, top: int, shown: Sequence[str] = ()) -> None:
    """The first `top` candidates, what the choice is worth, and the winner or why there is none.

    Args:
        selection: made among everything that was tried.
        top: how many rows.
        shown: candidates of these metrics only, all when empty; nothing else changes.
    """
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 132)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("variant", overflow="fold")
    for heading in ("held out", "in sample", "95% CI", "chosen", "p adj.", "| size"):
        view.add_column(heading, justify="right", no_wrap=True)
    if selection.baseline is not None:
        view.add_column("− baseline", justify="right", no_wrap=True)
        view.add_column("p", justify="right", no_wrap=True)
    for candidate in _of(selection, shown)[:top]:
        cells = [
            visible(candidate.column.name),
            _signed_or_dash(candidate.held_out),
            _signed_or_dash(candidate.rho),
            _span(candidate.interval),
            f"{candidate.chosen_share:.0%}",
            _p(candidate.p_adjusted),
            _signed_or_dash(candidate.partial),
        ]
        if selection.baseline is not None:
            cells += [_signed_or_dash(candidate.minus_baseline), _p(candidate.p_beats_baseline)]
        view.add_row(*cells)
    print_whole(console, view)
    for line in _selection_notes(selection):
        console.print(visible(line), style="dim", highlight=False)
    console.print()
    for line in _conclusion(selection):
        console.print(visible(line), style="bold", highlight=False)


def _of(selection: MetricSelection, metrics: Sequence[str]) -> list[Candidate]:
    """The candidates of these metrics; all when none is named."""
    return [c for c in selection.candidates if not metrics or c.column.metric in metrics]


def _conclusion(selection: MetricSelection) -> list[str]:
    """The last word, in one line or with one reason a line; preregistered metrics come first."""
    lines = [f"pre-registered: {result.text}" for result in selection.registered]
    if selection.winner is not None:
        interval = selection.after_choice.interval
        lines.append(
            f"winner: {selection.winner.column.name}, rho {selection.winner.rho:+.2f} in sample "
            f"(95% CI that allows for the choice {_span(interval)}), "
            f"{selection.conditions.by_model.held_out:+.2f} with each model left out of the choice"
        )
    else:
        lines += ["no winner:", *(f"  - {reason}" for reason in selection.reasons)]
    return lines


def _documents_text(selection: MetricSelection) -> str:
    """Whether the best one's interval allows for other documents, and what they do."""
    noise, name = selection.documents, selection.best.column.name
    if noise is None:
        return f"{name}: no metric_documents to draw anew"
    return (
        f"{name}: with {noise.documents} documents drawn anew {_span(noise.sources.documents)}, "
        f"with documents and models {_span(noise.sources.both)} (bootstrap, not allowing for the "
        f"choice); reliability over documents {_signed_or_dash(noise.sources.reliability)}"
    )


def _new_family_text(selection: MetricSelection) -> str:
    """What to expect of the best one in a new family, or why nothing."""
    found, name = selection.new_family, selection.best.column.name
    if math.isnan(found.value):
        return f"{name}: with a single family nothing can be said of a new one"
    text = (
        f"{name}: for a model of a new family {_signed_or_dash(found.value)}, near-copies "
        f"partially pooled: the {selection.models} models are worth {found.worth:.1f} independent "
        "ones"
    )
    if math.isnan(found.interval.low):
        return f"{text}; {found.families} families are too few for an interval"
    return f"{text}; 95% CI with the choice allowed for {_span(found.interval)}"


def _groups_text(selection: MetricSelection) -> str:
    """How many independent groups there are, and what they are too few for."""
    words: dict[Condition, str] = {
        "beats_chance_within_families": "whether it only tells groups of models apart",
        "places_left_out_models": "whether it places a model left out",
        "places_left_out_kinds": "whether it places a new kind of models",
        "places_left_out_families": "whether it places a new family",
    }
    missing = [words[name] for name in selection.conditions.untestable if name in words]
    text = f"independent groups: {selection.families} families, {selection.kinds} kinds of models"
    return text + (f"; not testable with so few: {', '.join(missing)}" if missing else "")


def _stability_text(selection: MetricSelection) -> str:
    """How often leaving one model out leaves the choice as it is, in three senses."""
    found = selection.conditions.stability
    return (
        f"the same variant in {found.same_variant:.0%} of the folds, of the same metric in "
        f"{found.same_metric:.0%}, ranking the models alike in {found.same_ranking:.0%} "
        f"(Spearman {SAME_RANKING} or more; this counts)"
    )


def _selection_notes(selection: MetricSelection) -> list[str]:
    splits, conditions = selection.splits, selection.conditions
    lines = [
        f"{selection.models} models, {len(selection.candidates)} variants that may be chosen, "
        f"{selection.tries_text}: p adj. and the ruling count them all, whatever is shown",
        "held out: mean over "
        f"{len(splits.chosen)} random splits of rho on the {splits.tested} models that weren't "
        "used",
        f"the procedure (best of all on the training part): in sample "
        f"{_signed_or_dash(splits.held_out + splits.optimism)}, held out "
        f"{_signed_or_dash(splits.held_out)}, optimism {_signed_or_dash(splits.optimism)}",
        "left out of the choice and then placed: "
        + "; ".join(
            f"each {what} {_signed_or_dash(found.held_out)} ({found.covered} of "
            f"{selection.models} models, p {_p(found.p)})"
            for what, found in (
                ("model", conditions.by_model),
                ("kind", conditions.by_kind),
                ("family", conditions.by_family),
            )
        ),
        f"left out one at a time, the choice is {_stability_text(selection)}",
        f"by luck the best of all tries reaches |rho| {conditions.overall.null_95:.2f} one "
        "time in twenty; permuting series of models within families, the best has adjusted p = "
        f"{_p(conditions.p_within_families)}",
        "95% CI of in sample: holds for all variants at once, so for a chosen one, too; models of "
        "a family or a kind count as alike",
        f"{selection.best.column.name}: {selection.best.rho:+.2f} in sample, of which choosing "
        f"anew in resamples puts {selection.after_choice.optimism:+.2f} down to the choice",
        _new_family_text(selection),
        _documents_text(selection),
        _groups_text(selection),
        "| size: partial correlation given log parameters; the order of the rows is itself a "
        "choice: trust the procedure's line",
    ]
    if selection.baseline is not None:
        lines.append(
            f"− baseline: rho minus that of {selection.baseline.name}; p: swap test against the "
            "best of all variants, one-sided, families swapped as wholes"
            + _too_few_families(selection)
        )
        lines.append(
            f"on models that weren't used, {selection.baseline.name} reaches "
            f"{_signed_or_dash(splits.baseline_held_out)}; the choice does better in "
            f"{splits.beats_baseline:.0%} of the splits"
        )
    if not math.isnan(selection.noise_ceiling):
        lines.append(
            f"the target's own noise lets no metric reach more than {selection.noise_ceiling:.2f} "
            "(Pearson) on average"
        )
    if selection.best_minus_baseline is not None:
        found = selection.best_minus_baseline
        lines.append(
            f"{selection.best.column.name} minus baseline {_signed_or_dash(found.value)}, 95% CI "
            f"{_signed_or_dash(found.percentile.low)} to {_signed_or_dash(found.percentile.high)} "
            "(paired percentile bootstrap over families, not adjusted for the choice)"
            + _too_few_families(selection)
        )
    uneven = tuple(c.column.name for c in selection.candidates if c.fewer)
    for what, names in (
        ("compares models on different documents (--json names them)", uneven),
        ("not complete, left out", selection.incomplete),
        ("needs a second model, left out (--unofficial)", selection.inadmissible),
    ):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"{what}: {', '.join(names[:5])}{more}")
    return lines


def _too_few_families(selection: MetricSelection) -> str:
    """Why nothing is said about the lead over the baseline; empty where something is."""
    if selection.families >= MINIMUM_GROUPS:
        return ""
    return f"; it takes {MINIMUM_GROUPS} families, and here are {selection.families}"


def _signed_or_dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.3f}"


def _span(interval: Interval) -> str:
    return "–" if math.isnan(interval.low) else f"{interval.low:+.2f} to {interval.high:+.2f}"


def _p(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"
