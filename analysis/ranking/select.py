"""What `tokenmart select` prints: candidates, held-out worth, and a winner or the reasons."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from analysis.ranking.leaderboard import interval_record, number
from analysis.ranking.metric_table import load_table
from analysis.ranking.verdict import Candidate, Verdict, judge
from analysis.statistics.winner import SAME_RANKING
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem


def run_select(
    problem_name: str,
    metrics: tuple[str, ...],
    top: int,
    splits: int,
    seed: int,
    unofficial: bool,
    as_json: bool,
) -> None:
    """Judge and print."""
    workspace = find_workspace()
    table = load_table(load_problem(problem_name, workspace), workspace, metrics)
    verdict = judge(table, seed, splits, unofficial)
    if as_json:
        click.echo(json.dumps(verdict_record(verdict), indent=2, allow_nan=False))
    else:
        _print(verdict, top)


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON-ready values."""
    splits, ruling = verdict.splits, verdict.ruling
    stability = ruling.stability
    return {
        "models": verdict.models,
        "variants": len(verdict.candidates),
        "winner": None if verdict.winner is None else verdict.winner.column.name,
        "best": verdict.best.column.name,
        "reasons": list(verdict.reasons),
        "p_adjusted": number(verdict.best.p_adjusted),
        "p_adjusted_within_model_families": number(ruling.p_within_families),
        "stability": {
            "folds": stability.folds,
            "same_variant": number(stability.same_variant),
            "same_metric": number(stability.same_metric),
            "same_ranking": number(stability.same_ranking),
            "distinct_choices": len({choice.variant for choice in ruling.by_model.choices}),
        },
        "held_out": {
            "leave_one_model_out": number(ruling.by_model.held_out),
            "leave_one_family_out": number(ruling.by_family.held_out),
            "leave_one_family_out_models": ruling.by_family.covered,
            "splits": len(splits.chosen),
            "splits_mean": number(splits.held_out),
            "splits_in_sample_mean": number(splits.held_out + splits.optimism),
            "optimism": number(splits.optimism),
            "baseline_splits_mean": number(splits.baseline_held_out),
            "beats_baseline_share_of_splits": number(splits.beats_baseline),
        },
        "baseline": None if verdict.baseline is None else verdict.baseline.name,
        "best_minus_baseline": _difference(verdict),
        "incomplete": list(verdict.incomplete),
        "inadmissible": list(verdict.inadmissible),
        "seed": verdict.seed,
        "candidates": [_record(candidate) for candidate in verdict.candidates],
    }


def _difference(verdict: Verdict) -> dict[str, Any] | None:
    found = verdict.best_minus_baseline
    if found is None:
        return None
    return {
        "value": number(found.value),
        "ci95": interval_record(found.percentile),
        "ci95_bca": interval_record(found.bca),
    }


def _record(candidate: Candidate) -> dict[str, Any]:
    return {
        "metric": candidate.column.metric,
        "variant": candidate.column.variant,
        "family": candidate.column.family,
        "direction": candidate.column.direction,
        "spearman": number(candidate.rho),
        "held_out": number(candidate.held_out),
        "chosen_share": number(candidate.chosen_share),
        "p_adjusted": number(candidate.p_adjusted),
        "p_adjusted_in_family": number(candidate.p_in_family),
        "partial_given_log_parameters": number(candidate.partial),
        "minus_baseline": number(candidate.beats_baseline),
        "p_beats_baseline": number(candidate.p_beats_baseline),
    }


def _print(verdict: Verdict, top: int) -> None:
    console = Console(width=None if sys.stdout.isatty() else 132)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("variant", overflow="fold")
    for heading in ("held out", "in sample", "chosen", "p adj.", "p in family", "| size"):
        view.add_column(heading, justify="right", no_wrap=True)
    if verdict.baseline is not None:
        view.add_column("− baseline", justify="right", no_wrap=True)
        view.add_column("p", justify="right", no_wrap=True)
    for candidate in verdict.candidates[:top]:
        cells = [
            candidate.column.name,
            _signed(candidate.held_out),
            _signed(candidate.rho),
            f"{candidate.chosen_share:.0%}",
            _p(candidate.p_adjusted),
            _p(candidate.p_in_family),
            _signed(candidate.partial),
        ]
        if verdict.baseline is not None:
            cells += [_signed(candidate.beats_baseline), _p(candidate.p_beats_baseline)]
        view.add_row(*cells)
    console.print(view)
    for line in _lines(verdict):
        console.print(line, style="dim", highlight=False)
    console.print()
    for line in conclusion(verdict):
        console.print(line, style="bold", highlight=False)


def conclusion(verdict: Verdict) -> list[str]:
    """The last word, in one line or with one reason a line."""
    if verdict.winner is not None:
        return [
            f"winner: {verdict.winner.column.name}, rho {verdict.winner.rho:+.2f} in sample, "
            f"{verdict.ruling.by_model.held_out:+.2f} with each model left out of the choice"
        ]
    return ["no winner:", *(f"  - {reason}" for reason in verdict.reasons)]


def stability_text(verdict: Verdict) -> str:
    """How often leaving one model out leaves the choice as it is, in three senses."""
    found = verdict.ruling.stability
    return (
        f"the same variant in {found.same_variant:.0%} of the folds, of the same metric in "
        f"{found.same_metric:.0%}, ranking the models alike in {found.same_ranking:.0%} "
        f"(Spearman {SAME_RANKING} or more; this counts)"
    )


def _lines(verdict: Verdict) -> list[str]:
    splits, ruling = verdict.splits, verdict.ruling
    lines = [
        f"{verdict.models} models, {len(verdict.candidates)} variants; held out: mean over "
        f"{len(splits.chosen)} random splits of rho on the {splits.tested} models that weren't "
        "used",
        f"the procedure (best of all on the training part): in sample "
        f"{_signed(splits.held_out + splits.optimism)}, held out {_signed(splits.held_out)}, "
        f"optimism {_signed(splits.optimism)}",
        f"leave one model out {_signed(ruling.by_model.held_out)}; leave one family out "
        f"{_signed(ruling.by_family.held_out)} ({ruling.by_family.covered} of {verdict.models} "
        "models covered)",
        f"left out one at a time, the choice is {stability_text(verdict)}",
        f"by luck the best of these variants reaches |rho| {ruling.overall.null_95:.2f} one time "
        "in twenty; permuting within model families only, the best has adjusted p = "
        f"{_p(ruling.p_within_families)}",
        "| size: partial correlation given log parameters; the order of the rows is itself a "
        "choice: trust the procedure's line",
    ]
    if verdict.baseline is not None:
        lines.append(
            f"− baseline: rho minus that of {verdict.baseline.name}; p: swap test against the "
            "best of all variants, one-sided"
        )
        lines.append(
            f"on models that weren't used, {verdict.baseline.name} reaches "
            f"{_signed(splits.baseline_held_out)}; the choice does better in "
            f"{splits.beats_baseline:.0%} of the splits"
        )
    if verdict.best_minus_baseline is not None:
        found = verdict.best_minus_baseline
        lines.append(
            f"{verdict.best.column.name} minus baseline {_signed(found.value)}, 95% CI "
            f"{_signed(found.percentile.low)} to {_signed(found.percentile.high)} (paired "
            "percentile bootstrap, not adjusted for the choice)"
        )
    for what, names in (
        ("not complete, left out", verdict.incomplete),
        ("needs a second model, left out (--unofficial)", verdict.inadmissible),
    ):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"{what}: {', '.join(names[:5])}{more}")
    return lines


def _signed(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.3f}"


def _p(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"
