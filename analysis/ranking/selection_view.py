"""The selection as JSON and as a table in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from analysis.ranking.leaderboard_view import (
    NAMED,
    baseline_line,
    exploratory_line,
    near_best_line,
    or_dash,
    registered_lines,
    registered_names,
    span,
    tracking_lines,
)
from analysis.ranking.metric_selection import Candidate, MetricSelection
from analysis.ranking.metric_table import fewer_text
from analysis.ranking.registered import LEAD_LEVEL
from analysis.statistics.correlations import number
from analysis.statistics.document_noise import MINIMUM_DOCUMENTS
from warehouse.terminal import (
    Column,
    counted,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)


def selection_record(selection: MetricSelection, shown: Sequence[str] = ()) -> dict[str, Any]:
    """The selection as JSON-ready values; of the candidates, those of the metrics `shown`.

    The keys are described in docs/explanation/statistics.md.
    """
    splits, inference, table = selection.splits, selection.inference, selection.table
    return {
        "problem": table.problem,
        "models": selection.models,
        "groups": {
            "families": selection.families,
            "kinds": len(set(table.kinds)),
            "series": selection.series,
        },
        "preregistered": [result.record for result in selection.registered],
        "tracks_target": [c.column.name for c in selection.tracking],
        "not_distinguishable_from_best": [c.column.name for c in selection.near_best],
        "best": selection.best.column.name,
        "variants": len(selection.candidates),
        "tried": table.tries,
        "tested": inference.tested,
        "least_spearman_that_excludes_0": number(inference.least_rho),
        "critical": number(inference.critical),
        "critical_within_families": number(inference.within_critical),
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
            "ci95_new_documents": selection.documents.sources.documents.record,
            "ci95_new_documents_and_models": selection.documents.sources.both.record,
            "reliability": number(selection.documents.sources.reliability),
            "soft_pairwise_accuracy": number(selection.documents.soft_pairs),
        },
        "noise_ceiling_pearson": number(selection.noise_ceiling),
        "baseline": None if selection.baseline is None else selection.baseline.name,
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
    console = terminal_console()
    print_notes(console, answer_lines(selection), "bold")
    print_notes(console, [_next(selection)])
    console.print()
    first = registered_names(selection.registered)
    rows = sorted(_of(selection, shown), key=lambda c: c.column.name not in first)[:top]
    rows += [c for c in selection.candidates if c.column is selection.baseline and c not in rows]
    left_out = print_columns(console, _columns(selection, rows, first), wide=wide)
    notes = [exploratory_line(selection.registered), *_selection_notes(selection)]
    notes += left_out_notes(left_out)
    print_notes(console, notes, "dim")


def _columns(
    selection: MetricSelection, rows: Sequence[Candidate], first: frozenset[str]
) -> list[Column]:
    def name(candidate: Candidate) -> str:
        marks = " (preregistered)" if candidate.column.name in first else ""
        return (
            candidate.column.name
            + marks
            + (" (baseline)" if candidate.column is selection.baseline else "")
        )

    shown: list[tuple[str, Callable[[Candidate], str], bool]] = [
        ("Spearman", lambda c: or_dash(c.rho), False),
        ("95% CI", lambda c: span(c.interval), False),
        ("p adj.", lambda c: or_dash(c.p_adjusted, ".4f"), False),
        ("best?", lambda c: "maybe" if c.near_best else "no", False),
        ("held out", lambda c: or_dash(c.held_out), False),
        ("within", lambda c: or_dash(c.within_rho), True),
        ("95% CI", lambda c: span(c.within_interval), True),
        ("| size", lambda c: or_dash(c.partial), True),
    ]
    if selection.baseline is not None:
        shown += [
            ("− base", lambda c: or_dash(c.minus_baseline), True),
            ("p", lambda c: or_dash(c.p_beats_baseline, ".4f"), True),
        ]
    return [
        Column("metric/variant", [name(row) for row in rows], text=True),
        *(Column(head, [cell(row) for row in rows], extra=extra) for head, cell, extra in shown),
    ]


def _of(selection: MetricSelection, metrics: Sequence[str]) -> list[Candidate]:
    """The candidates of these metrics; all when none is named."""
    return [c for c in selection.candidates if not metrics or c.column.metric in metrics]


def answer_lines(selection: MetricSelection) -> list[str]:
    """Preregistered metrics first, then both answers and what they say of the baseline."""
    lines = registered_lines(selection.registered)
    lines += tracking_lines(
        selection.tracking,
        selection.best,
        selection.models,
        selection.inference.tested,
        selection.inference.least_rho,
    )
    uneven = next((c for c in selection.candidates if c.evidence and c.fewer), None)
    if uneven is not None:
        lines.append(
            f"  {uneven.column.name} isn't among them: it compares models on different documents "
            f"({fewer_text(uneven.column, uneven.fewer)}). Run `tokenmart extract --problem "
            f"{selection.table.option}` and `tokenmart dbt build`."
        )
    base = next((c for c in selection.candidates if c.column is selection.baseline), None)
    if base is not None:
        lines.append(baseline_line(base, selection.models))
    lines.append(near_best_line(selection.near_best))
    if selection.baseline is not None:
        lines.append(_baseline_text(selection, selection.baseline.name))
    return lines


def _baseline_text(selection: MetricSelection, name: str) -> str:
    ahead = [c for c in selection.candidates if c.p_beats_baseline < LEAD_LEVEL]
    if not ahead:
        return f"No variant is distinguishable from {name}, the baseline, by a larger rho."
    metrics = sorted({c.column.metric for c in ahead}, key=[c.column.metric for c in ahead].index)
    named = ", ".join(metrics[:NAMED])
    more = f" and {counted(len(metrics) - NAMED, 'more metric')}" if len(metrics) > NAMED else ""
    return (
        f"Ahead of {name}, the baseline (one-sided p below {LEAD_LEVEL}, adjusted): {named}{more}."
    )


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
        f"{span(noise.sources.documents)}, with documents and whole series of models "
        f"{span(noise.sources.both)} (bootstrap, not adjusted for the choice); reliability over "
        f"documents {or_dash(noise.sources.reliability)}"
    )


def _new_family_text(selection: MetricSelection) -> str:
    """Expected rho of the best one in a new family, or why there is none."""
    found, name = selection.new_family, selection.best.column.name
    if math.isnan(found.value):
        return f"{name}: one family gives no estimate for a new one"
    text = (
        f"{name}: expected rho in a new family {or_dash(found.value)} (near-duplicates "
        f"partially pooled; the {selection.models} models are worth {found.worth:.1f} independent "
        "ones)"
    )
    if math.isnan(found.interval.low):
        return f"{text}; {found.families} families are too few for an interval"
    return f"{text}; 95% CI that allows for the choice {span(found.interval)}"


def _selection_notes(selection: MetricSelection) -> list[str]:
    splits, inference = selection.splits, selection.inference
    lines = [
        f"{selection.models} models, {selection.families} families, {selection.series} series; "
        f"{len(selection.candidates)} variants that may be chosen, {selection.table.tries_text}: p "
        "adj. and CI account for all of them, whatever is shown",
        "95% CI, p adj.: simultaneous for all metrics tested, so also for the best; variances are "
        f"typically {inference.overall.design_effect:.2f} times those of independent models, as "
        "models of a family or a series are alike",
        "within: rho of the ranks less their family means, with its CI; best? maybe: not "
        "distinguishable from the best (95%)",
        f"held out: mean rho on {splits.tested} models drawn at random ({splits.test.size} "
        f"splits); choosing on the others and scoring there: in sample "
        f"{or_dash(splits.held_out + splits.optimism)}, held out "
        f"{or_dash(splits.held_out)}",
        _new_family_text(selection),
        _documents_text(selection),
        "| size: partial correlation given log parameters",
    ]
    if selection.baseline is not None:
        lines.append(
            f"− base: rho minus that of {selection.baseline.name}; p: one-sided, adjusted for all "
            f"candidates; held out it reaches {or_dash(splits.baseline_held_out)}, and the "
            f"choice does better in {splits.beats_baseline:.0%} of the splits"
        )
    if not math.isnan(selection.noise_ceiling):
        lines.append(
            f"noise ceiling: by its standard errors, the target lets no metric reach more than "
            f"{selection.noise_ceiling:.2f} (Pearson) on average"
        )
    if (lead := selection.best_lead) is not None:
        lines.append(
            f"{selection.best.column.name} minus baseline {or_dash(lead.value)} "
            f"({lead.text}), not adjusted for the choice"
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
