"""The answers of `tokenmart correlate` and `select` in words, and the leaderboard in the terminal.

The answers: which metrics track the target, and which can't be distinguished from the best.
Preregistered metrics come first; everything else is exploratory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import compress

from analysis.ranking.leaderboard import (
    MINIMUM_MODELS,
    Leaderboard,
    LeaderboardRow,
    TestedMetric,
)
from analysis.ranking.metric_table import NAMED_MODELS, MetricColumn, MetricTable, fewer_text
from analysis.ranking.registered import RegisteredResult
from analysis.statistics.correlations import Interval
from analysis.statistics.document_noise import MINIMUM_DOCUMENTS
from warehouse.terminal import (
    Column,
    counted,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)

NAMED = 5
"""Number of metrics that are named; the rest is counted."""

FEW_MODELS = 12
"""With 12 independent models, a rho of 0.57 has a 95% CI (Fisher z) that ends at 0."""

FEW_TOKENS = 100
"""Below, a mean of per-token values has a standard error of a tenth of their spread or more."""


def registered_lines(registered: Sequence[RegisteredResult]) -> list[str]:
    """One line for each preregistered metric."""
    return [f"Preregistered: {result.text}." for result in registered]


def registered_names(registered: Sequence[RegisteredResult]) -> frozenset[str]:
    """The metrics that lead every table: preregistered, and as they were registered."""
    return frozenset(result.said.metric.name for result in registered if result.said.counts)


def tracking_lines(
    tracking: Sequence[TestedMetric],
    first: TestedMetric,
    models: int,
    tested: int,
    least: float,
) -> list[str]:
    """Which metrics track the target, by the best variant of each; or that none does.

    `tracking` has the largest rho first, as has `first` of all variants; `least` is the rho from
    which an interval over all models excludes 0.
    """
    null = f"95% null maximum of {tested} tested: {least:+.2f}"
    if not tracking:
        return [
            f"No metric tracks the target: no 95% CI excludes 0. Best of all: "
            f"{_rho(first, models)}. {null}."
        ]
    lines = [f"These metrics track the target: {_listed(tracking)}. {null}."]
    for variants in list(_by_metric(tracking).values())[:NAMED]:
        best = variants[0]
        text = f"  {_rho(best, models)}: CI excludes 0 {' and '.join(best.evidence)}"
        if "over all models" not in best.evidence:
            text += f", rho {best.within_rho:+.2f} ({span(best.within_interval)})"
        lines.append(text)
    return lines


def baseline_line(baseline: TestedMetric, models: int) -> str:
    """The baseline's figures, which every answer is compared with."""
    return f"Baseline: {_rho(baseline, models)}."


def near_best_line(near: Sequence[TestedMetric]) -> str:
    """Which metrics can't be distinguished from the best; `near` has the best first."""
    return f"Not distinguishable from the best ({near[0].column.name}): {_listed(near)}."


def exploratory_line(registered: Sequence[RegisteredResult]) -> str:
    """The sentence on exploratory results that precedes the answers."""
    what = "Everything below" if registered else "No metric is preregistered; everything"
    return f"{what} is exploratory: p and CI allow for the choice among all metrics tested."


def span(interval: Interval) -> str:
    """Both ends of an interval; a dash where there is none."""
    return "–" if math.isnan(interval.low) else f"{interval.low:+.2f} to {interval.high:+.2f}"


def or_dash(value: float, form: str = "+.3f") -> str:
    """A number; a dash where it is undefined."""
    return "–" if math.isnan(value) else f"{value:{form}}"


def _rho(metric: TestedMetric, models: int) -> str:
    return (
        f"{metric.column.name}, rho {metric.rho:+.2f} (95% CI {span(metric.interval)}, "
        f"n = {models})"
    )


def _by_metric(variants: Sequence[TestedMetric]) -> dict[str, list[TestedMetric]]:
    found: dict[str, list[TestedMetric]] = {}
    for variant in variants:
        found.setdefault(variant.column.metric, []).append(variant)
    return found


def _listed(variants: Sequence[TestedMetric]) -> str:
    """The first metrics, each with its number of variants, and how many more there are."""
    names = [
        f"{metric} ({counted(len(of), 'variant')})" for metric, of in _by_metric(variants).items()
    ]
    more = f" and {counted(len(names) - NAMED, 'more metric')}" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def print_leaderboard(board: Leaderboard, top: int, wide: bool = False) -> None:
    """The answers, then ideas, the first `top` other rows and the baseline, and their notes."""
    ideas = [row for row in board.rows if row.column.kind != "variant"]
    variants = [row for row in board.rows if row.column.kind == "variant"]
    first = registered_names(board.registered)
    variants.sort(key=lambda row: row.column.name not in first)
    rows = [*ideas, *variants[:top]]
    if board.baseline is not None and board.baseline not in rows:
        rows.append(board.baseline)
    console = terminal_console()
    print_notes(console, _answers(board), "bold")
    print_notes(console, [f"Next: {_next(board)}"])
    console.print()
    left_out = print_columns(console, _columns(board, rows, first), wide=wide)
    for row in ideas:
        alike = ", ".join(f"{other.name} ({_signed(rho)})" for other, rho in row.alike)
        if alike:
            print_notes(console, [f"{row.column.name} ranks the models most like: {alike}"])
    notes = _notes(board, rows, len(variants))
    notes += left_out_notes(left_out)
    print_notes(console, notes, "dim")
    print_notes(console, (f"warning: {warning}" for warning in _warnings(board, rows)), "bold")


def _columns(
    board: Leaderboard, rows: Sequence[LeaderboardRow], first: frozenset[str]
) -> list[Column]:
    """The table: the most important columns first, the rest on a wide terminal."""

    def name(row: LeaderboardRow) -> str:
        marks = "" if row.column.admissible else " †"
        if row.column.name in first:
            marks += " (preregistered)"
        if row is board.baseline:
            marks += " (baseline)"
        return row.column.name + marks

    def skipped(row: LeaderboardRow) -> str:
        found = row.coefficients
        return f"{_signed(found.skipped.value)} ({found.skipped.kept})" if found else "–"

    def pairs(row: LeaderboardRow) -> str:
        noise = row.documents
        known = noise and not math.isnan(noise.soft_pairs)
        return f"{noise.soft_pairs:.2f}" if noise and known else "–"

    shown: list[tuple[str, Callable[[LeaderboardRow], str], bool]] = [
        ("Spearman", lambda row: _signed(row.spearman), False),
        ("95% CI", lambda row: _interval(row.interval), False),
        ("p adj.", lambda row: or_dash(row.p_adjusted, ".4f"), False),
        ("held out", lambda row: or_dash(row.held_out, "+.2f"), False),
        ("n", lambda row: str(row.n), False),
        ("tokens", lambda row: f"{fewest_tokens(row):,}" if fewest_tokens(row) else "–", False),
        ("better", lambda row: row.column.direction, True),
        ("Pearson", lambda row: _signed(row.coefficients.pearson) if row.coefficients else "–",
         True),
        ("skipped", skipped, True),
        ("new docs", lambda row: _interval(row.documents.sources.both) if row.documents else "–",
         True),
        ("pairs", pairs, True),
    ]  # fmt: skip
    return [
        Column("metric/variant", [name(row) for row in rows], text=True),
        *(Column(head, [cell(row) for row in rows], extra=extra) for head, cell, extra in shown),
    ]


def fewest_tokens(row: LeaderboardRow) -> int:
    """Tokens behind the value of the model that has fewest; 0 where none are counted."""
    pairs = zip(row.column.tokens, row.column.present, strict=False)
    return min((tokens for tokens, there in pairs if there), default=0)


def _notes(board: Leaderboard, rows: Sequence[LeaderboardRow], variants: int) -> list[str]:
    """Notes that explain the shown rows, a sentence each."""
    table = board.table
    shown = sum(row.column.kind == "variant" for row in rows)
    unit = "families" if board.clustered else "models"
    notes = [
        f"{table.problem}: {len(table.models)} models"
        + (f"; {shown} of {variants} variants shown (--top)" if shown < variants else ""),
        exploratory_line(board.registered),
        f"95% CI, p adj.: simultaneous for all {table.tries_text}, "
        "whatever is shown, so valid for a chosen one; variances are typically "
        f"{board.inference.overall.design_effect:.2f} times those of independent models, as "
        "families and series are alike (named beforehand, or for a new family: --json)",
    ]
    if (untested := len(table.everything) - board.inference.tested) > 0:
        notes.append(f"{untested} of these have no p: constant, or values for too few models")
    notes += [
        "95% null maximum: the rho from which the simultaneous CI of a metric excludes 0",
        "held out: mean rho over random splits of the models; n: models; tokens: behind the value "
        "of the model with fewest",
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
    unscored = [
        full_id for full_id in table.without_target if full_id.replace("/", "--") in table.extracted
    ]
    if unscored:
        more = f" and {len(unscored) - NAMED} more" if len(unscored) > NAMED else ""
        notes.append(f"extracted, without a target score: {', '.join(unscored[:NAMED])}{more}")
    notes += _without_value(table, [row.column for row in rows])
    return notes


def _warnings(board: Leaderboard, rows: Sequence[LeaderboardRow]) -> list[str]:
    """Warnings about the shown numbers."""
    table = board.table
    found = []
    series = len(set(table.series))
    if len(table.models) < FEW_MODELS:
        found.append(
            f"{len(table.models)} models in {series} series: intervals are wide, and a ranking of "
            f"metrics means little below {FEW_MODELS} models"
        )
    if few := [row for row in rows if 0 < fewest_tokens(row) < FEW_TOKENS]:
        least = min(few, key=fewest_tokens)
        found.append(
            f"{len(few)} of the rows rest on fewer than {FEW_TOKENS} tokens for some model "
            f"({least.column.name}: {fewest_tokens(least)})"
        )
    if uneven := [row for row in rows if row.fewer]:
        column = uneven[0].column
        found.append(
            f"{len(uneven)} of the rows compare models on different documents, {column.name} for "
            f"instance ({fewer_text(column, uneven[0].fewer)}): run "
            f"`tokenmart extract --problem {table.option}` and `tokenmart dbt build`"
        )
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        found.append(
            f"models were run in different number formats ({', '.join(parts)}): their values "
            "differ by rounding, too; run `tokenmart extract --dtype` with one for all"
        )
    return found


def _answers(board: Leaderboard) -> list[str]:
    """Preregistered metrics first, then the verdict, the baseline and what is near the best."""
    lines = registered_lines(board.registered)
    models = len(board.table.models)
    base = board.baseline
    if not board.near_best:
        lines.append(f"{models} models, or none with all values, are too few for an answer.")
    else:
        lines += tracking_lines(
            board.tracking,
            board.near_best[0],
            models,
            board.inference.tested,
            board.inference.least_rho,
        )
    if base is not None:
        lines.append(baseline_line(base, base.n))
    if board.near_best:
        lines.append(near_best_line(board.near_best))
    return lines


def _next(board: Leaderboard) -> str:
    """The command that follows."""
    table = board.table
    if len(table.models) < MINIMUM_MODELS:
        return f"`tokenmart report --problem {table.option}` (every metric, every model)"
    return f"`tokenmart select --problem {table.option}` (the choice on held-out models)"


def _document_note(rows: Sequence[LeaderboardRow]) -> str:
    """A note that explains the columns on documents and pairs, or why they are empty."""
    found = [row.documents for row in rows if row.documents]
    if not found:
        resting = max((count for row in rows for count in row.column.documents), default=0)
        if resting < MINIMUM_DOCUMENTS:
            return "new docs, pairs: empty, since no value here rests on two documents or more"
        return "new docs, pairs: no metric_parts to draw from; run `tokenmart dbt build`"
    text = (
        f"new docs: Spearman with {found[0].documents} documents and whole series of models "
        "resampled, 95% percentile bootstrap, not adjusted for the choice"
    )
    pairs = next((noise.pairs for noise in found if noise.pairs), None)
    if pairs is None:
        return f"{text}; pairs: needs standard errors of the target"
    return (
        f"{text}; pairs: soft pairwise accuracy (WMT), which gives near-ties a low weight: the "
        f"target separates {pairs.told_apart} pairs of models, {pairs.tossups} are near-ties, "
        f"{pairs.ties} tied"
    )


def _without_value(table: MetricTable, columns: Sequence[MetricColumn]) -> Iterator[str]:
    """A line for each set of models that some of these columns leave out."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    ids = [model.full_id for model in table.models]
    for column in columns:
        alike[tuple(compress(ids, ~column.present))].append(column.name)
    for models, names in alike.items():
        if models:
            more = f" and {len(names) - 1} more rows" if len(names) > 1 else ""
            count = len(models) - NAMED_MODELS
            rest = f" and {count} more models" if count > 0 else ""
            yield f"{names[0]}{more}: no value for {', '.join(models[:NAMED_MODELS])}{rest}"


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:+.3f}"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "undefined"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
