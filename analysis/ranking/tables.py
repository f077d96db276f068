"""The leaderboard and the selection as tables in the terminal."""

from __future__ import annotations

import math
import sys

from rich.console import Console
from rich.table import Table

from analysis.ranking.leaderboard import Leaderboard
from analysis.ranking.metric_selection import MetricSelection
from analysis.statistics import SAME_RANKING, Interval


def print_leaderboard(board: Leaderboard, top: int) -> None:
    """The first `top` rows, and how to read them."""
    table, rows = board.table, min(top, len(board.rows))
    console = Console(width=None if sys.stdout.isatty() else 150)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("metric", overflow="fold")
    view.add_column("variant", overflow="fold")
    for heading in (
        "better", "Spearman", "95% CI", "families", "Pearson", "skipped", "95% CI", "n", "p adj.",
    ):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for row in board.rows[:rows]:
        found = row.correlation.bootstrapped
        cells = ["–"] * 4
        if found is not None:
            cells = [
                _interval(found.spearman.percentile),
                _signed(found.pearson),
                f"{_signed(found.skipped_spearman.value)} ({found.skipped.kept})",
                _interval(found.skipped_spearman.percentile),
            ]
        view.add_row(
            row.column.metric + ("" if row.column.admissible else " †"),
            row.column.variant,
            row.column.direction,
            _signed(row.rho),
            cells[0],
            _interval(row.correlation.family_interval),
            cells[1],
            cells[2],
            cells[3],
            str(row.correlation.n),
            "–" if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.4f}",
        )
    console.print(view)
    unit = "families" if board.clustered else "models"
    notes = [
        f"{table.problem}: {len(table.models)} models, {len(table.columns)} variants"
        + (f", {rows} shown (--top)" if rows < len(table.columns) else ""),
        "sign: 'lower is better' metrics are negated first, so + means: behaves as expected",
        f"95% CI: percentile bootstrap over {unit}, {board.resamples} resamples (BCa: --json)",
        "families: 95% CI that allows for models of a family being alike; trust it, not the "
        "bootstrap, unless every model is its own family",
        "skipped: MCD filter, points kept in brackets; its bootstrap CI errs on the wide side",
        f"p adj.: permutation test against the best of all {len(table.columns)} variants; by luck "
        f"the best reaches |rho| {board.test.null_95:.2f} one time in twenty",
    ]
    degenerate = sum(
        row.correlation.bootstrapped.skipped_spearman.percentile.degenerate
        for row in board.rows
        if row.correlation.bootstrapped is not None
    )
    if degenerate:
        notes.append(f"{degenerate} degenerate resamples in all were left out of the intervals")
    if any(not row.column.admissible for row in board.rows[:rows]):
        notes.append("† needs a second model: not admissible for an official submission")
    if table.without_target:
        notes.append(f"without a target score: {', '.join(table.without_target)}")
    for note in notes:
        console.print(note, style="dim", highlight=False)
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        console.print(
            f"warning: models were run in different number formats ({', '.join(parts)}): their "
            "values differ by rounding, too; run `tokenmart extract --dtype` with one for all",
            style="bold",
            highlight=False,
        )


def print_selection(selection: MetricSelection, top: int) -> None:
    """The first `top` candidates, what the choice is worth, and the winner or why there is none."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("variant", overflow="fold")
    for heading in ("held out", "in sample", "chosen", "p adj.", "p in family", "| size"):
        view.add_column(heading, justify="right", no_wrap=True)
    if selection.baseline is not None:
        view.add_column("− baseline", justify="right", no_wrap=True)
        view.add_column("p", justify="right", no_wrap=True)
    for candidate in selection.candidates[:top]:
        cells = [
            candidate.column.name,
            _signed_or_dash(candidate.held_out),
            _signed_or_dash(candidate.rho),
            f"{candidate.chosen_share:.0%}",
            _p(candidate.p_adjusted),
            _p(candidate.p_in_family),
            _signed_or_dash(candidate.partial),
        ]
        if selection.baseline is not None:
            cells += [_signed_or_dash(candidate.minus_baseline), _p(candidate.p_beats_baseline)]
        view.add_row(*cells)
    console.print(view)
    for line in _selection_notes(selection):
        console.print(line, style="dim", highlight=False)
    console.print()
    for line in _conclusion(selection):
        console.print(line, style="bold", highlight=False)


def _conclusion(selection: MetricSelection) -> list[str]:
    """The last word, in one line or with one reason a line."""
    if selection.winner is not None:
        return [
            f"winner: {selection.winner.column.name}, rho {selection.winner.rho:+.2f} in sample, "
            f"{selection.conditions.by_model.held_out:+.2f} with each model left out of the choice"
        ]
    return ["no winner:", *(f"  - {reason}" for reason in selection.reasons)]


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
        f"{selection.models} models, {len(selection.candidates)} variants; held out: mean over "
        f"{len(splits.chosen)} random splits of rho on the {splits.tested} models that weren't "
        "used",
        f"the procedure (best of all on the training part): in sample "
        f"{_signed_or_dash(splits.held_out + splits.optimism)}, held out "
        f"{_signed_or_dash(splits.held_out)}, optimism {_signed_or_dash(splits.optimism)}",
        f"leave one model out {_signed_or_dash(conditions.by_model.held_out)}; leave one family "
        f"out {_signed_or_dash(conditions.by_family.held_out)} ({conditions.by_family.covered} of "
        f"{selection.models} models covered)",
        f"left out one at a time, the choice is {_stability_text(selection)}",
        f"by luck the best of these variants reaches |rho| {conditions.overall.null_95:.2f} one "
        "time in twenty; permuting within model families only, the best has adjusted p = "
        f"{_p(conditions.p_within_families)}",
        "| size: partial correlation given log parameters; the order of the rows is itself a "
        "choice: trust the procedure's line",
    ]
    if selection.baseline is not None:
        lines.append(
            f"− baseline: rho minus that of {selection.baseline.name}; p: swap test against the "
            "best of all variants, one-sided"
        )
        lines.append(
            f"on models that weren't used, {selection.baseline.name} reaches "
            f"{_signed_or_dash(splits.baseline_held_out)}; the choice does better in "
            f"{splits.beats_baseline:.0%} of the splits"
        )
    if selection.best_minus_baseline is not None:
        found = selection.best_minus_baseline
        lines.append(
            f"{selection.best.column.name} minus baseline {_signed_or_dash(found.value)}, 95% CI "
            f"{_signed_or_dash(found.percentile.low)} to {_signed_or_dash(found.percentile.high)} "
            "(paired percentile bootstrap, not adjusted for the choice)"
        )
    for what, names in (
        ("not complete, left out", selection.incomplete),
        ("needs a second model, left out (--unofficial)", selection.inadmissible),
    ):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"{what}: {', '.join(names[:5])}{more}")
    return lines


def _signed_or_dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.3f}"


def _p(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:+.3f}"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "undefined"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
