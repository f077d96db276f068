"""What `tokenmart correlate` prints: a table, or all rows as JSON."""

from __future__ import annotations

import json
import math
import sys

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from analysis.ranking.leaderboard import Leaderboard, entry_record, leaderboard, number
from analysis.ranking.metric_table import MetricTable, load_table
from analysis.statistics.bootstrap import Interval
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem


def run_correlate(
    problem_name: str,
    metrics: tuple[str, ...],
    top: int | None,
    clustered: bool,
    resamples: int,
    seed: int,
) -> None:
    """Compute and print; `top` None means every row, as JSON."""
    workspace = find_workspace()
    table = load_table(load_problem(problem_name, workspace), workspace, metrics)
    rows = len(table.columns) if top is None else min(top, len(table.columns))
    with Progress(transient=True, console=Console(stderr=True)) as progress:
        quiet = not sys.stderr.isatty()
        task = progress.add_task("bootstrap", total=rows, visible=not quiet)
        board = leaderboard(
            table, seed, resamples, top, clustered, advance=lambda: progress.advance(task)
        )
    if top is None:
        click.echo(json.dumps(_document(table, board), indent=2, allow_nan=False))
    else:
        _print(table, board, rows)


def _document(table: MetricTable, board: Leaderboard) -> dict[str, object]:
    return {
        "problem": table.problem,
        "models": [model.full_id for model in table.models],
        "without_target": list(table.without_target),
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "permutations": board.test.permutations,
        "null_95_of_best": number(board.test.null_95),
        "rows": [entry_record(entry) for entry in board.entries],
    }


def _print(table: MetricTable, board: Leaderboard, rows: int) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("metric", overflow="fold")
    view.add_column("variant", overflow="fold")
    for heading in (
        "better", "Spearman", "95% CI", "families", "Pearson", "skipped", "95% CI", "n", "p adj.",
    ):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for entry in board.entries[:rows]:
        found = entry.details
        cells = ["–"] * 4
        if found is not None:
            cells = [
                _interval(found.spearman.percentile),
                _signed(found.pearson),
                f"{_signed(found.skipped_spearman.value)} ({found.skipped.kept})",
                _interval(found.skipped_spearman.percentile),
            ]
        view.add_row(
            entry.column.metric + ("" if entry.column.admissible else " †"),
            entry.column.variant,
            entry.column.direction,
            _signed(entry.rho),
            cells[0],
            _interval(entry.family),
            cells[1],
            cells[2],
            cells[3],
            str(entry.n),
            "–" if math.isnan(entry.p_adjusted) else f"{entry.p_adjusted:.4f}",
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
        entry.details.skipped_spearman.percentile.degenerate
        for entry in board.entries
        if entry.details is not None
    )
    if degenerate:
        notes.append(f"{degenerate} degenerate resamples in all were left out of the intervals")
    if any(not entry.column.admissible for entry in board.entries[:rows]):
        notes.append("† needs a second model: not admissible for an official submission")
    if table.without_target:
        notes.append(f"without a target score: {', '.join(table.without_target)}")
    for note in notes:
        console.print(note, style="dim", highlight=False)


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:+.3f}"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "undefined"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
