"""The leaderboard as a table in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from analysis.ranking.answers import (
    exploratory_line,
    near_best_line,
    registered_lines,
    registered_names,
    tracking_lines,
)
from analysis.ranking.coverage import fewer_text, without_texts
from analysis.ranking.documents import MINIMUM_DOCUMENTS
from analysis.ranking.leaderboard import Leaderboard, LeaderboardRow
from analysis.statistics.bootstrap import Interval
from warehouse.errors import visible
from warehouse.terminal import print_whole


def print_leaderboard(board: Leaderboard, top: int) -> None:
    """The answers, then ideas and the first `top` other rows, and how to read them."""
    table = board.table
    ideas = [row for row in board.rows if row.column.kind != "variant"]
    variants = [row for row in board.rows if row.column.kind == "variant"]
    first = registered_names(board.registered)
    variants.sort(key=lambda row: row.column.name not in first)
    rows = [*ideas, *variants[:top]]
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 150)
    for line in _answers(board):
        console.print(visible(line), style="bold", highlight=False)
    console.print()
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("metric", overflow="fold")
    view.add_column("variant", overflow="fold")
    for heading in (
        "better", "Spearman", "95% CI", "p adj.", "n", "held out", "Pearson", "skipped",
        "new docs", "pairs",
    ):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        pearson = skipped = new_documents = pairs = "–"
        if found := row.coefficients:
            pearson = _signed(found.pearson)
            skipped = f"{_signed(found.skipped.value)} ({found.skipped.kept})"
        if noise := row.documents:
            new_documents = _interval(noise.sources.both)
            pairs = "–" if math.isnan(noise.soft_pairs) else f"{noise.soft_pairs:.2f}"
        view.add_row(
            visible(row.column.metric) + ("" if row.column.admissible else " †"),
            visible(row.column.variant) + (" (preregistered)" if row.column.name in first else ""),
            row.column.direction,
            _signed(row.rho),
            _interval(row.interval),
            "–" if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.4f}",
            str(row.n),
            "–" if math.isnan(row.held_out) else _signed(row.held_out),
            pearson,
            skipped,
            new_documents,
            pairs,
        )
    print_whole(console, view)
    for row in ideas:
        alike = ", ".join(f"{other.name} ({_signed(rho)})" for other, rho in row.alike)
        if alike:
            console.print(
                visible(f"{row.column.name} ranks the models most like: {alike}"), highlight=False
            )
    for note in _notes(board, rows, len(variants)):
        console.print(visible(note), style="dim", highlight=False)
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        console.print(
            f"warning: models were run in different number formats ({', '.join(parts)}): their "
            "values differ by rounding, too; run `tokenmart extract --dtype` with one for all",
            style="bold",
            highlight=False,
        )


def _notes(board: Leaderboard, rows: Sequence[LeaderboardRow], variants: int) -> list[str]:
    """How to read the shown rows, a sentence each."""
    table = board.table
    shown = sum(row.column.kind == "variant" for row in rows)
    unit = "families" if board.clustered else "models"
    notes = [
        f"{table.problem}: {len(table.models)} models"
        + (f"; {shown} of {variants} variants shown (--top)" if shown < variants else ""),
        f"95% CI, p adj.: simultaneous for everything that was tried ({table.tries_text}), "
        "whatever is shown, so valid for a chosen one; variances are typically "
        f"{board.inference.overall.design_effect:.2f} times those of independent models, as "
        "families and series are alike (named beforehand, or for a new family: --json)",
    ]
    if (untested := len(table.everything) - board.inference.tested) > 0:
        notes.append(f"{untested} of these have no p: constant, or values for too few models")
    notes += [
        "held out: mean rho over random splits of the models",
        "sign: 'lower is better' metrics are negated first, so + means: behaves as expected",
        "skipped: MCD filter, points kept in brackets; bootstrap intervals over "
        f"{unit} ({board.resamples} resamples): --json",
        _document_note(rows),
    ]
    if any(not row.column.admissible for row in rows):
        notes.append(
            "† not admissible for an official submission: needs a second model, or is an idea "
            "(make it a metric: `tokenmart metrics new`)"
        )
    if uneven := [row.column for row in rows if row.fewer]:
        notes.append(
            f"{len(uneven)} of the rows compare models on different documents, "
            f"{uneven[0].name} for instance ({fewer_text(table, uneven[0])}): run "
            f"`tokenmart extract --problem {table.problem}` and `tokenmart dbt build`"
        )
    notes += without_texts(table, [row.column for row in rows])
    if table.without_target:
        notes.append(f"without a target score: {', '.join(table.without_target)}")
    return notes


def _answers(board: Leaderboard) -> list[str]:
    """Preregistered metrics first, then both answers."""
    lines = [*registered_lines(board.registered), exploratory_line(board.registered)]
    if not board.near_best:
        few = len(board.table.models)
        return [*lines, f"{few} models, or none with all values, are too few for an answer."]
    first = board.near_best[0]
    lines += tracking_lines(
        board.tracking,
        first,
        len(board.table.models),
        board.inference.tested,
        board.inference.least_rho,
    )
    return [*lines, near_best_line(board.near_best)]


def _document_note(rows: Sequence[LeaderboardRow]) -> str:
    """What the columns about documents and pairs say, or why they are empty."""
    found = [row.documents for row in rows if row.documents]
    if not found:
        resting = max((count for row in rows for count in row.column.documents), default=0)
        if resting < MINIMUM_DOCUMENTS:
            return "new docs, pairs: empty, since no value here rests on two documents or more"
        return "new docs, pairs: no metric_documents to draw from; run `tokenmart dbt build`"
    text = (
        f"new docs: Spearman with {found[0].documents} documents and whole series of models drawn "
        "anew, 95% percentile bootstrap, not adjusted for the choice"
    )
    pairs = next((noise.pairs for noise in found if noise.pairs), None)
    if pairs is None:
        return f"{text}; pairs: needs standard errors of the target"
    return (
        f"{text}; pairs: soft pairwise accuracy (WMT), which counts toss-ups little: the target "
        f"tells {pairs.told_apart} pairs of models apart, {pairs.tossups} are toss-ups, "
        f"{pairs.ties} tied"
    )


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:+.3f}"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "undefined"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
