"""The answers of `tokenmart correlate` and `select` in words, and the leaderboard in the terminal.

The answers: which metrics track the target, and which can't be distinguished from the best.
Preregistered metrics come first; everything else is exploratory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

from analysis.ranking.leaderboard import MINIMUM_MODELS, Leaderboard, LeaderboardRow, TestedMetric
from analysis.ranking.metric_table import NAMED_MODELS, MetricColumn, MetricTable, fewer_text
from analysis.ranking.registered import RegisteredResult
from analysis.statistics.document_noise import MINIMUM_DOCUMENTS
from analysis.statistics.formats import signed, span, unsigned
from warehouse.terminal import (
    Column,
    counted,
    left_out_notes,
    listed,
    print_columns,
    print_notes,
    terminal_console,
)

if TYPE_CHECKING:
    from analysis.ranking.metric_selection import MetricSelection

NAMED = 5
"""Number of metrics that are named; the rest is counted."""

FEW_MODELS = 12
"""With 12 independent models, a rho of 0.57 has a 95% CI (Fisher z) that ends at 0."""

FEW_TOKENS = 100
"""Below, a mean of per-token values has a standard error of a tenth of their spread or more."""

Row = TypeVar("Row", bound=TestedMetric)


def registered_names(registered: Sequence[RegisteredResult]) -> frozenset[str]:
    """The metrics that lead every table: preregistered, and as they were registered."""
    return frozenset(result.said.metric.name for result in registered if result.said.counts)


def verdict_lines(found: Leaderboard | MetricSelection) -> list[str]:
    """Preregistered metrics first, then which metrics track the target, or that none does.

    Of each metric that tracks the target its best variant is named.
    """
    lines = [f"Preregistered: {result.text}." for result in found.registered]
    inference = found.inference
    null = f"95% null maximum of {inference.tested} tested: {signed(inference.overall.least_rho)}"
    if not found.near_best:
        models = len(found.table.models)
        lines.append(f"{models} models, or none with all values, are too few for an answer.")
    elif not found.tracking:
        best = _rho(found.near_best[0])
        lines.append(
            f"No metric tracks the target: no 95% CI excludes 0. Best of all: {best}. {null}."
        )
    else:
        lines.append(f"These metrics track the target: {_listed(found.tracking)}. {null}.")
    tracking = found.tracking if found.near_best else ()
    for variants in list(_by_metric(tracking).values())[:NAMED]:
        first = variants[0]
        text = f"  {_rho(first)}: CI excludes 0 {' and '.join(first.evidence)}"
        if "over all models" not in first.evidence:
            text += f", rho {signed(first.within_rho)} ({span(first.within_interval)})"
        lines.append(text)
    return lines


def comparison_lines(found: Leaderboard | MetricSelection) -> list[str]:
    """The baseline's figures, and which metrics can't be distinguished from the best."""
    lines = [f"Baseline: {_rho(found.baseline)}."] if found.baseline else []
    if near := found.near_best:
        best = near[0].column.name
        lines.append(f"Not distinguishable from the best ({best}): {_listed(near)}.")
    return lines


def exploratory_line(registered: Sequence[RegisteredResult]) -> str:
    """The sentence on exploratory results that precedes the answers."""
    what = "Everything below" if registered else "No metric is preregistered; everything"
    return f"{what} is exploratory: p and CI allow for the choice among all metrics tested."


def _rho(metric: TestedMetric) -> str:
    return (
        f"{metric.column.name}, rho {signed(metric.rho)} (95% CI {span(metric.interval)}, "
        f"n = {metric.n})"
    )


def _by_metric(variants: Sequence[TestedMetric]) -> dict[str, list[TestedMetric]]:
    found: dict[str, list[TestedMetric]] = {}
    for variant in variants:
        found.setdefault(variant.column.metric, []).append(variant)
    return found


def _listed(variants: Sequence[TestedMetric]) -> str:
    """The first metrics, each with its number of variants, and how many more there are.

    Those that `select` and the report leave out are counted apart: not admissible ones and ideas.
    """
    found = _by_metric(variants)
    names = [f"{metric} ({counted(len(of), 'variant')})" for metric, of in found.items()]
    outside = sum(not any(each.column.admissible for each in of) for of in found.values())
    text = listed(names, NAMED, "metric")
    return f"{text}; {outside} of these not admissible (†)" if outside else text


def print_answers(
    found: Leaderboard | MetricSelection,
    answers: Sequence[str],
    rows: Sequence[Row],
    name: Callable[[Row], str],
    cells: Sequence[tuple[str, Callable[[Row], str], bool]],
    notes: Sequence[str],
    wide: bool,
) -> None:
    """Print the answers, a table and the notes that explain it.

    Args:
        found: whose baseline and preregistered metrics are marked.
        answers: sentences, the last one with the next command.
        rows: of the table.
        name: of a row's metric.
        cells: of each column its heading, the cell of a row, and whether it is left out where the
            terminal is narrow.
        notes: sentences.
        wide: leave nothing out.
    """
    console = terminal_console()
    first = registered_names(found.registered)
    names = [
        name(row)
        + (" (preregistered)" if row.column.name in first else "")
        + (" (baseline)" if row is found.baseline else "")
        for row in rows
    ]
    columns = [
        Column("metric/variant", names, text=True),
        *(Column(head, [cell(row) for row in rows], extra=extra) for head, cell, extra in cells),
    ]
    print_notes(console, answers[:-1], "bold")
    print_notes(console, answers[-1:])
    console.print()
    left_out = print_columns(console, columns, wide=wide)
    print_notes(console, [*notes, *left_out_notes(left_out)], "dim")


def leading_rows(
    rows: Sequence[Row], registered: Sequence[RegisteredResult], top: int, baseline: Row | None
) -> list[Row]:
    """The first `top` rows, preregistered metrics before others, and the baseline."""
    first = registered_names(registered)
    shown = sorted(rows, key=lambda row: row.column.name not in first)[:top]
    return shown if baseline is None or baseline in shown else [*shown, baseline]


def print_leaderboard(board: Leaderboard, top: int, wide: bool = False) -> None:
    """The answers, then ideas, the first `top` other rows and the baseline, and their notes."""
    ideas = [row for row in board.rows if row.column.kind != "variant"]
    variants = [row for row in board.rows if row.column.kind == "variant"]
    rows = [*ideas, *leading_rows(variants, board.registered, top, board.baseline)]
    answers = [*verdict_lines(board), *comparison_lines(board), f"Next: {_next(board)}"]
    notes = []
    for row in ideas:
        if alike := ", ".join(f"{other.name} ({_coefficient(rho)})" for other, rho in row.alike):
            notes.append(f"{row.column.name} ranks the models most like: {alike}")
    notes += _notes(board, rows, len(variants))
    print_answers(
        board,
        answers,
        rows,
        lambda row: row.column.name + ("" if row.column.admissible else " †"),
        _CELLS,
        notes,
        wide,
    )
    warnings = (f"warning: {warning}" for warning in _warnings(board, rows))
    print_notes(terminal_console(), warnings, "bold")


def _coefficient(value: float) -> str:
    return signed(value, 3, "undefined")


_CELLS: list[tuple[str, Callable[[LeaderboardRow], str], bool]] = [
    ("Spearman", lambda row: _coefficient(row.rho), False),
    ("95% CI", lambda row: span(row.interval, "undefined"), False),
    ("p adj.", lambda row: unsigned(row.p_adjusted, 4), False),
    ("held out", lambda row: signed(row.held_out), False),
    ("n", lambda row: str(row.n), False),
    ("tokens", lambda row: f"{count:,}" if (count := fewest_tokens(row)) else "–", False),
    ("better", lambda row: row.column.direction, True),
    ("Pearson", lambda row: _coefficient(found.pearson) if (found := row.coefficients) else "–",
        True),
    ("skipped", lambda row: f"{_coefficient(found.skipped.value)} ({found.skipped.kept})"
        if (found := row.coefficients) else "–", True),
    ("new docs", lambda row: span(noise.new_documents_and_models, "undefined")
        if (noise := row.documents) else "–", True),
    ("pairs", lambda row: unsigned(noise.soft_pairs, 2) if (noise := row.documents) else "–", True),
]  # fmt: skip
"""Heading, cell of a row, and whether it is left out where the terminal is narrow."""


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
        "whatever is shown, so valid for a chosen one (the best metric's upper end is that of a "
        "single metric, as selection only raises its rho); variances are typically "
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
            "(make it a metric: docs/tutorials/own_metric.md)"
        )
    unscored = [
        full_id for full_id in table.without_target if full_id.replace("/", "--") in table.extracted
    ]
    if unscored:
        notes.append(f"extracted, without a target score: {listed(unscored, NAMED)}")
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
            f"instance ({fewer_text(column, uneven[0].fewer)}): "
            f"{table.remedy}"
        )
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        found.append(
            f"models were run in different number formats ({', '.join(parts)}): their values "
            "differ by rounding, too; run `tokenmart extract --dtype` with one for all"
        )
    return [*found, *lengths_warnings(table.lengths, table.option)]


def lengths_warnings(lengths: Mapping[int, Sequence[str]], problem: str) -> list[str]:
    """A warning if models read different `lengths` (tokens → models) of a cut document."""
    if len(lengths) < 2:
        return []
    parts = (f"{length:,} for {listed(ids, 1)}" for length, ids in lengths.items())
    return [
        "documents were cut at different lengths (of one, the tokens read are "
        f"{', '.join(parts)}): the values are of different tokens; run "
        f"`tokenmart extract --problem {problem}` with one --max-tokens for all"
    ]


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
            left_out = listed(models, NAMED_MODELS, "model")
            yield f"{listed(names, 1, 'row')}: no value for {left_out}"
