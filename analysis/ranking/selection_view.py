"""The selection as JSON and as a table in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from analysis.ranking.leaderboard_view import (
    NAMED,
    comparison_lines,
    exploratory_line,
    leading_rows,
    print_answers,
    verdict_lines,
)
from analysis.ranking.metric_selection import Candidate, MetricSelection
from analysis.ranking.metric_table import fewer_text
from analysis.ranking.registered import LEAD_LEVEL
from analysis.statistics.correlations import number
from analysis.statistics.document_noise import MINIMUM_DOCUMENTS
from analysis.statistics.formats import signed, span, unsigned
from warehouse.terminal import listed


def selection_record(selection: MetricSelection, shown: Sequence[str] = ()) -> dict[str, Any]:
    """The selection as JSON-ready values; of the candidates, those of the metrics `shown`.

    The keys are described in docs/explanation/statistics.md.
    """
    splits, inference, table = selection.splits, selection.inference, selection.table
    return {
        "problem": table.problem,
        "models": len(table.models),
        "groups": {
            "families": len(set(table.families)),
            "kinds": len(set(table.kinds)),
            "series": len(set(table.series)),
        },
        "preregistered": [result.record for result in selection.registered],
        "tracks_target": [c.column.name for c in selection.tracking],
        "not_distinguishable_from_best": [c.column.name for c in selection.near_best],
        "best": selection.best.column.name,
        "variants": len(selection.candidates),
        "tried": table.tries,
        "tested": inference.tested,
        "least_spearman_that_excludes_0": number(inference.overall.least_rho),
        "critical": number(inference.overall.critical),
        "critical_within_families": number(inference.within.critical),
        "design_effect": number(inference.overall.design_effect),
        "held_out": {
            "splits": splits.test.size,
            "splits_mean": number(splits.held_out),
            "splits_in_sample_mean": number(splits.held_out + splits.optimism),
            "optimism": number(splits.optimism),
            "baseline_splits_mean": number(splits.baseline_held_out),
            "beats_baseline_share_of_splits": number(splits.beats_baseline),
        },
        "new_family": selection.new_family.record,
        "documents": None
        if selection.documents is None
        else {
            "documents": selection.documents.documents,
            "ci95_new_documents": selection.documents.new_documents.record,
            "ci95_new_documents_and_models": selection.documents.new_documents_and_models.record,
            "reliability": number(selection.documents.reliability),
            "soft_pairwise_accuracy": number(selection.documents.soft_pairs),
        },
        "noise_ceiling_pearson": number(selection.noise_ceiling),
        "baseline": None if selection.baseline is None else selection.baseline.column.name,
        "best_minus_baseline": selection.best_lead.record if selection.best_lead else None,
        "incomplete": list(selection.incomplete),
        "inadmissible": list(selection.inadmissible),
        "seed": selection.seed,
        "candidates": [_candidate_record(candidate) for candidate in _of(selection, shown)],
    }


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    return {
        "metric": candidate.column.metric,
        "variant": candidate.column.variant,
        "family": candidate.column.family,
        "direction": candidate.column.direction,
        "spearman": number(candidate.rho),
        "spearman_ci95_after_choice": candidate.interval.record,
        "p_adjusted": number(candidate.p_adjusted),
        "spearman_within_families": number(candidate.within_rho),
        "spearman_within_families_ci95_after_choice": candidate.within_interval.record,
        "p_adjusted_within_families": number(candidate.p_within),
        "tracks_target": candidate.tracks,
        "distinguishable_from_best": not candidate.near_best,
        "held_out": number(candidate.held_out),
        "partial_given_log_parameters": number(candidate.partial),
        "minus_baseline": number(candidate.minus_baseline),
        "p_beats_baseline": number(candidate.p_beats_baseline),
        "models_with_fewer_documents": candidate.fewer,
    }


def print_selection(
    selection: MetricSelection, top: int, shown: Sequence[str] = (), wide: bool = False
) -> None:
    """The answers and what to do next, then the first `top` candidates of the metrics `shown`."""
    rows = leading_rows(_of(selection, shown), selection.registered, top, selection.baseline)
    print_answers(
        selection,
        [*answer_lines(selection), _next(selection)],
        rows,
        lambda candidate: candidate.column.name,
        [*_CELLS, *(_BASELINE_CELLS if selection.baseline else ())],
        [exploratory_line(selection.registered), *_selection_notes(selection)],
        wide,
    )


_CELLS: list[tuple[str, Callable[[Candidate], str], bool]] = [
    ("Spearman", lambda candidate: signed(candidate.rho, 3), False),
    ("95% CI", lambda candidate: span(candidate.interval), False),
    ("p adj.", lambda candidate: unsigned(candidate.p_adjusted, 4), False),
    ("best?", lambda candidate: "maybe" if candidate.near_best else "no", False),
    ("held out", lambda candidate: signed(candidate.held_out, 3), False),
    ("within", lambda candidate: signed(candidate.within_rho, 3), True),
    ("95% CI", lambda candidate: span(candidate.within_interval), True),
    ("| size", lambda candidate: signed(candidate.partial, 3), True),
]
"""Heading, cell of a row, and whether it is left out where the terminal is narrow."""

_BASELINE_CELLS: list[tuple[str, Callable[[Candidate], str], bool]] = [
    ("− base", lambda candidate: signed(candidate.minus_baseline, 3), True),
    ("p", lambda candidate: unsigned(candidate.p_beats_baseline, 4), True),
]


def _of(selection: MetricSelection, metrics: Sequence[str]) -> list[Candidate]:
    """The candidates of these metrics; all when none is named."""
    return [
        candidate
        for candidate in selection.candidates
        if not metrics or {candidate.column.metric, candidate.column.name} & set(metrics)
    ]


def answer_lines(selection: MetricSelection) -> list[str]:
    """Preregistered metrics first, then both answers and what they say of the baseline."""
    lines = verdict_lines(selection)
    uneven = next((c for c in selection.candidates if c.evidence and c.fewer), None)
    if uneven is not None:
        lines.append(
            f"  {uneven.column.name} isn't among them: it compares models on different documents "
            f"({fewer_text(uneven.column, uneven.fewer)}); {selection.table.remedy}."
        )
    lines += comparison_lines(selection)
    if selection.baseline is None:
        return lines
    name = f"{selection.baseline.column.name}, the baseline"
    ahead = [c.column.metric for c in selection.candidates if c.p_beats_baseline < LEAD_LEVEL]
    lines.append(
        f"Ahead of {name} (one-sided p below {LEAD_LEVEL}, adjusted): "
        f"{listed(list(dict.fromkeys(ahead)), NAMED, 'metric')}."
        if ahead
        else f"No variant is distinguishable from {name}, by a larger rho."
    )
    return lines


def _next(selection: MetricSelection) -> str:
    """The command that follows from the answers."""
    best = selection.tracking[0] if selection.tracking else selection.best
    if not selection.registered:
        return (
            f"Next: on models without labels, `tokenmart preregister --problem PROBLEM --metric "
            f"{best.column.name}`; a preregistered metric is tested alone, which has more power."
        )
    option = selection.table.option
    return f"Next: `tokenmart report --problem {option}` shows every metric and figure."


def _documents_text(selection: MetricSelection) -> str:
    """Whether the best one's interval allows for other documents, and what they do."""
    noise, name = selection.documents, selection.best.column.name
    if noise is None:
        if max(selection.best.column.documents, default=0) < MINIMUM_DOCUMENTS:
            return f"{name}: rests on fewer than two documents, which can't be resampled"
        return f"{name}: no metric_parts to draw from; run `tokenmart dbt build`"
    return (
        f"{name}: 95% CI with {noise.documents} documents resampled "
        f"{span(noise.new_documents)}, with documents and whole series of models "
        f"{span(noise.new_documents_and_models)} (bootstrap, not adjusted for the choice); "
        f"reliability over documents {signed(noise.reliability, 3)}"
    )


def _new_family_text(selection: MetricSelection) -> str:
    """Expected rho of the best one in a new family, or why there is none."""
    found, name = selection.new_family, selection.best.column.name
    if math.isnan(found.value):
        return f"{name}: one family gives no estimate for a new one"
    text = (
        f"{name}: expected rho in a new family {signed(found.value, 3)} (near-duplicates "
        f"partially pooled; the {len(selection.table.models)} models are worth {found.worth:.1f} "
        "independent ones)"
    )
    if math.isnan(found.interval.low):
        return f"{text}; {found.families} families are too few for an interval"
    return f"{text}; 95% CI that allows for the choice {span(found.interval)}"


def _selection_notes(selection: MetricSelection) -> list[str]:
    splits, inference, table = selection.splits, selection.inference, selection.table
    families, series = len(set(table.families)), len(set(table.series))
    lines = [
        f"{len(table.models)} models, {families} families, {series} series; "
        f"{len(selection.candidates)} variants that may be chosen, {table.tries_text}: p "
        "adj. and CI account for all of them, whatever is shown",
        "95% CI, p adj.: simultaneous for all metrics tested, so also for the best; variances are "
        f"typically {inference.overall.design_effect:.2f} times those of independent models, as "
        "models of a family or a series are alike",
        "within: rho of the ranks less their family means, with its CI; best? maybe: not "
        "distinguishable from the best (95%)",
        f"held out: mean rho on {splits.tested} models drawn at random ({splits.test.size} "
        f"splits); choosing on the others and scoring there: in sample "
        f"{signed(splits.held_out + splits.optimism, 3)}, held out "
        f"{signed(splits.held_out, 3)}",
        _new_family_text(selection),
        _documents_text(selection),
        "| size: partial correlation given log parameters",
    ]
    if selection.baseline is not None:
        lines.append(
            f"− base: rho minus that of {selection.baseline.column.name}; p: one-sided, adjusted "
            f"for all candidates; held out it reaches {signed(splits.baseline_held_out, 3)}, and "
            f"the choice does better in {splits.beats_baseline:.0%} of the splits"
        )
    if not math.isnan(selection.noise_ceiling):
        lines.append(
            f"noise ceiling: by its standard errors, the target lets no metric reach more than "
            f"{unsigned(selection.noise_ceiling, 2)} (Pearson) on average"
        )
    if (lead := selection.best_lead) is not None:
        lines.append(
            f"{selection.best.column.name} minus baseline {signed(lead.value, 3)} "
            f"({lead.text}), not adjusted for the choice"
        )
    uneven = tuple(c.column.name for c in selection.candidates if c.fewer)
    for what, names in (
        ("compares models on different documents (--json names them)", uneven),
        ("not complete, left out", selection.incomplete),
        ("needs a second model, left out (--unofficial)", selection.inadmissible),
    ):
        if names:
            lines.append(f"{what}: {listed(names, NAMED)}")
    return lines
