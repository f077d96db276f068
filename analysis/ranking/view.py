"""The ranking in words: reason codes become sentences here, for the terminal and the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import compress

import click

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.registered import Code, RegisteredResult
from analysis.ranking.results import RankedMetric, Ranking
from analysis.ranking.sensitivity import Joined
from analysis.statistics.correlations import signed, span, unsigned
from analysis.statistics.families import MINIMUM_MODELS
from warehouse.terminal import (
    Column,
    counted,
    listed,
    print_columns,
    print_notes,
    terminal_console,
)

NAMED = 3
"""Number of metrics that are named; the rest is counted."""

ROWS = 10
"""Of the table, unless --top is given."""

MOST_LINES = 25
"""Of the terminal, unless more is asked for."""

MOST_NOTES = 3

FEW_TOKENS = 100
"""Below, a mean of per-token values has a standard error of a tenth of their spread or more."""


def answer_lines(ranking: Ranking) -> list[str]:
    """The conclusion: preregistered outcomes, what tracks the target, the best, the baseline.

    Preregistered metrics without an outcome come last.
    """
    without = [result for result in ranking.registered if result.code in REASONS]
    lines = [registered_text(result) for result in ranking.registered if result not in without]
    lines.append(_answer(ranking))
    if ranking.answer in ("tracks", "none-tracks") and ranking.best:
        near = ranking.near_best
        if len(near) > 1:
            best = ranking.best.column.name
            lines.append(f"Not distinguishable from {best} by these models: {_listed(near[1:])}.")
    if ranking.without_baseline:
        lines.append(
            f"No baseline: {ranking.without_baseline} is constant or has no value for some model."
        )
    if ranking.baseline and ranking.baseline is not ranking.best:
        lines.append(f"Baseline: {rho_text(ranking.baseline)}. {lead_text(ranking)}".strip())
    return [*lines, *map(registered_text, without)]


def _answer(ranking: Ranking) -> str:
    table, decisions, best = ranking.table, ranking.decisions, ranking.best
    models = f"{counted(len(table.models), 'model')} in {len(set(table.series))} series"
    tested = counted(decisions.tested, "metric")
    if ranking.answer == "constant-target":
        return "The target is the same for every model: no metric can be correlated with it."
    if ranking.answer == "too-few":
        return f"{models} are too few to test {tested}: correlations are described, none is tested."
    if ranking.answer == "tracks":
        tracking = ranking.tracking
        first = ranking.first_tracking or tracking[0]
        text = rho_text(first)
        if "all-models" not in first.evidence:
            within = f"{signed(first.within_rho)}, {span(first.within_interval)}"
            text += f", by differences within families (rho {within})"
        if len(tracking) == 1:
            return f"One metric tracks the target: {text}. {counted_text(ranking)}"
        number = counted(len(tracking), "metric")
        return f"{number} track the target, among them {text}. {counted_text(ranking)}"
    text = f"No metric tracks the target: of {tested} tested, no 95% CI is above 0."
    opposite = sum(row.verdict == "opposite" for row in ranking.rows)
    if opposite:
        text += f" {counted(opposite, 'metric')} correlate in the opposite direction."
    return f"{text} Largest rho: {rho_text(best)}." if best else text


def joined_text(joined: Joined) -> str:
    """What would be concluded with unlabelled series joined."""
    decisions = joined.decisions
    if decisions.too_few:
        return "the models are too few to test any metric"
    tracks = sum(decisions.verdict(place) == "tracks" for place in range(len(decisions.complete)))
    return (
        f"{counted(tracks, 'metric')} would track the target" if tracks else "none would track it"
    )


def counted_text(ranking: Ranking) -> str:
    """Which metrics p-values and intervals are adjusted for."""
    table = ranking.table
    recorded = counted(len(table.everything), "metric")
    return f"{recorded} recorded in this folder since {table.tested_since}; others are not counted."


def _rho(row: RankedMetric, digits: int = 2) -> str:
    """Spearman; a dash for so few models that no interval exists."""
    return signed(row.rho, digits) if row.n >= MINIMUM_MODELS else "–"


def rho_text(row: RankedMetric) -> str:
    """A row's correlation with its interval and number of models."""
    return (
        f"{row.column.name}, rho {_rho(row)} "
        f"(95% CI {span(row.interval, 'undefined')}, n = {row.n})"
    )


def lead_text(ranking: Ranking) -> str:
    """Which candidates are ahead of the baseline, adjusted for all of them."""
    if ranking.answer in ("too-few", "constant-target"):
        return ""
    ahead = [row for row in ranking.candidates if row.leads]
    if not ahead:
        return "No metric that tracks the target is distinguishable from it."
    return f"Ahead of it (one-sided adjusted p below 0.05): {_listed(ahead)}."


REASONS: dict[Code, str] = {
    "known-labels": "written when labels were known; exploratory",
    "changed": "its definition or the problem changed since then; exploratory",
    "outdated": "the database is older than what it was built from; build it again",
    "models-without-target": "some of its models have no target score; exploratory",
    "uneven-documents": "values of some models are from fewer documents; exploratory",
    "missing-models": "no value for every model, so it can't be tested",
    "constant": "the same value for every model, so it can't be tested",
    "constant-target": "the target is constant, so it can't be tested",
    "too-few": "the models are too few for a test at its level",
}
"""Why a preregistered metric has no outcome; the record has the details."""


def registered_text(result: RegisteredResult) -> str:
    """A preregistered metric's outcome, or why there is none."""
    entry, metric = result.prediction.entry, result.prediction.metric
    name = f"Preregistered {metric.name} (entry {entry.number}, {metric.direction} is better)"
    if reason := REASONS.get(result.code):
        changed = result.prediction.changed if result.code == "changed" else ()
        detail = f" ({'; '.join(changed[:3])}{'; …' * (len(changed) > 3)})" if changed else ""
        return f"{name}: {reason}{detail}."
    decisions, place = result.decisions, result.place
    overall, within = decisions.overall, decisions.within
    text = (
        f"{name}: {result.code.replace('-', ' ')}, rho {signed(result.rho)} "
        f"({100 * (1 - entry.level):g}% CI {span(overall.interval(place))}"
    )
    if within.tested[place]:
        text += f"; within families {signed(float(within.rho[place]))}, "
        text += span(within.interval(place))
    text += f"; n = {result.values.size}), one-sided p {decisions.p(place):.4f}"
    text += f", level {entry.level:g}"
    return f"{text}."


def _listed(rows: Sequence[RankedMetric]) -> str:
    """The first metrics, each with its number of variants, and how many more there are."""
    counts = Counter(row.column.metric for row in rows)
    names = [f"{metric} ({counted(count, 'variant')})" for metric, count in counts.items()]
    return listed(names, NAMED, "metric")


def warn_outdated(table: MetricTable) -> None:
    """Print that the values are not of the present files, and what of them has changed."""
    if table.outdated:
        what = listed(table.state.changed, NAMED)
        click.echo(
            f"note: {table.problem} has changed after the last build of the database ({what}); "
            f"`{table.build}` computes the metrics again",
            err=True,
        )


def notes(ranking: Ranking, rows: Sequence[RankedMetric]) -> dict[str, str]:
    """What changes the conclusion that a reader draws from these rows, by code, the gravest first.

    changed-labels: models, families or series differ from those of the first test.
    record-missing: nothing is recorded as tested although the database is older.
    unlabelled-series: models behave as one series and no label joins them. carried-by: without a
    few models the claim doesn't hold. different-lengths: of documents that were cut.
    uneven-documents: a value rests on fewer than that of another model.
    missing-models: a metric that would track the target lacks a model. few-tokens: fewer than
    `FEW_TOKENS`. different-dtypes: number formats. `alike METRIC`: the variants that rank the
    models most like an idea.
    """
    table = ranking.table
    shown = {row.column for row in rows}
    uneven = [r for r in ranking.rows if r.fewer and (r.column in shown or r.evidence)]
    lacking = [r for r in ranking.rows if r.verdict == "missing-models" and r.evidence]
    few = [row for row in rows if 0 < fewest_tokens(row.column) < FEW_TOKENS]
    texts = {}
    if table.changed_labels:
        texts["changed-labels"] = (
            f"labels changed since the first test ({table.tested_since}): "
            f"{listed(table.changed_labels, NAMED)}; p-values are those of the present labels"
        )
    if table.record_lost:
        texts["record-missing"] = (
            f"no metric is recorded as tested on {table.problem} in data/tested, though the "
            "database was built more than a day ago: metrics tested earlier are not counted"
        )
    if joined := ranking.joined:
        clusters = "; ".join(listed(cluster, NAMED) for cluster in joined.clusters)
        texts["unlabelled-series"] = (
            f"{clusters} behave as one series in the metrics, and no label joins them: "
            f"with them as one, {joined_text(joined)}"
        )
    if (carried := ranking.carried) and (claimed := ranking.first_tracking):
        texts["carried-by"] = (
            f"without {listed(carried.models, NAMED)}, {claimed.column.name} doesn't track the "
            f"target: rho {signed(carried.rho)}"
        )
    if len(table.lengths) > 1:
        parts = [f"{length:,} for {listed(ids, 1)}" for length, ids in table.lengths.items()]
        texts["different-lengths"] = (
            f"documents were cut at different lengths (of one, the tokens read are "
            f"{', '.join(parts)}): run `tokenmart extract` with one --max-tokens for all"
        )
    if uneven:
        fewer = [f"{full_id} {count}" for full_id, count in uneven[0].fewer.items()]
        texts["uneven-documents"] = (
            f"{_first(uneven)} compares models on different documents ({listed(fewer)}, of "
            f"{max(uneven[0].column.documents)})"
        )
    if lacking:
        missing = counted(len(table.models) - lacking[0].n, "model")
        texts["missing-models"] = f"{_first(lacking)} isn't claimed: no value for {missing}"
    if few:
        least = min(few, key=lambda row: fewest_tokens(row.column))
        texts["few-tokens"] = (
            f"{counted(len(few), 'row')} with fewer than {FEW_TOKENS} tokens for some model "
            f"({least.column.name}: {fewest_tokens(least.column)})"
        )
    if len(table.dtypes) > 1:
        parts = [f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items()]
        texts["different-dtypes"] = f"models were run in {', '.join(parts)}"
    for row in rows:
        if row.alike:
            alike = ", ".join(f"{other.name} ({signed(rho, 3)})" for other, rho in row.alike)
            texts[f"alike {row.column.name}"] = f"{row.column.name} ranks models most like {alike}"
    return texts


def full_notes(ranking: Ranking) -> list[str]:
    """What the choice is worth, on how many models and metrics it rests, how alike models are."""
    table, decisions = ranking.table, ranking.decisions
    what = "Everything else" if ranking.registered else "No metric is preregistered; everything"
    tested = (
        f"{len(table.models)} models, {len(set(table.families))} families, "
        f"{len(set(table.series))} series, {len(set(table.developers))} developers; "
        f"{decisions.tested} of {len(table.everything)} metrics tested have a p"
    )
    if decisions.tested:
        tested += (
            f". Variances are typically {decisions.overall.design_effect:.2f} times those of "
            "independent models; an interval over all models excludes 0 from rho "
            f"{signed(decisions.overall.least_rho)} on"
        )
    exploratory = f"{what} is exploratory: p and CI allow for the choice among all metrics tested"
    return [*choice_notes(ranking), exploratory, tested]


def _first(rows: Sequence[RankedMetric]) -> str:
    return rows[0].column.name + (f" (and {len(rows) - 1} more)" if len(rows) > 1 else "")


def fewest_tokens(column: MetricColumn) -> int:
    """Tokens behind the value of the model that has fewest; 0 where none are counted."""
    return min(compress(column.tokens, column.present), default=0)


EXPLANATION = (
    "rho, n: Spearman over the models that have a value; metrics where lower is better are negated "
    "first.",
    "95% CI, p adj.: simultaneous for all metrics tested, now and earlier, so valid for a chosen "
    "one. A metric tracks the target when its CI over all models or within families is above 0.",
    "within: rho of the ranks less their family means. best? maybe: not distinguishable from the "
    "candidate with the largest rho. - base: rho minus that of the baseline.",
    "† not admissible for an official submission: needs a second model, or is an idea. "
    "* preregistered. = baseline.",
    "Formulas, assumptions and simulated error rates: docs/explanation/statistics.md.",
)
"""Definitions of the columns."""


def print_ranking(
    ranking: Ranking,
    rows: Sequence[RankedMetric],
    top: int | None,
    follow: str,
    choosing: bool,
    explain: bool = False,
) -> None:
    """Print the conclusion, the first rows and the gravest notes.

    Args:
        ranking: all of it.
        rows: of the table; the first `top` are printed, ideas, preregistered metrics and the
            baseline in any case.
        top: how many; None for `ROWS`, or fewer where these need more than `MOST_LINES`.
        follow: the next command.
        choosing: whether the table is about the choice of a metric.
        explain: print all notes and the definitions of the columns.
    """
    console = terminal_console()
    for count in [top] if top else range(ROWS, 0, -1):
        shown = leading(ranking, rows, count)
        lines = list(notes(ranking, shown).values())
        if explain:
            lines += [*full_notes(ranking), *EXPLANATION]
        else:
            lines = [*lines, *(choice_notes(ranking)[:1] if choosing else [])][:MOST_NOTES]
        with console.capture() as capture:
            print_notes(console, answer_lines(ranking), "bold")
            console.print()
            print_columns(console, _columns(ranking, shown, choosing))
            print_notes(console, lines, "dim")
            more = f"{len(shown)} of {len(rows)} rows (--top, --explain, --json)"
            print_notes(console, [f"{more}. Next: {follow}"])
        if explain or capture.get().count("\n") <= MOST_LINES:
            break
    console.file.write(capture.get())


def _columns(ranking: Ranking, shown: Sequence[RankedMetric], choosing: bool) -> list[Column]:
    columns = [
        Column("metric/variant", [_name(ranking, row) for row in shown], text=True),
        Column("rho", [_rho(row, 3) for row in shown]),
        Column("95% CI", [span(row.interval) for row in shown]),
        Column("p adj.", [unsigned(row.p_adjusted, 4) for row in shown]),
        Column("n", [str(row.n) for row in shown]),
        Column("within", [signed(row.within_rho, 3) for row in shown], extra=True),
        Column("- base", [signed(row.minus_baseline, 3) for row in shown], extra=True),
        Column("verdict", [row.verdict for row in shown], extra=True),
    ]
    if choosing:
        columns.insert(5, Column("best?", ["maybe" if row.near_best else "no" for row in shown]))
    return columns


def _name(ranking: Ranking, row: RankedMetric) -> str:
    first = {r.prediction.metric.name for r in ranking.registered if r.prediction.counts}
    marks = (
        ("†", not row.column.admissible),
        ("*", row.column.name in first),
        ("=", ranking.baseline is not None and row.column is ranking.baseline.column),
    )
    shown = "".join(mark for mark, there in marks if there)
    return f"{row.column.name} {shown}".strip()


def leading(ranking: Ranking, rows: Sequence[RankedMetric], top: int) -> list[RankedMetric]:
    """Ideas, then the first `top` others, preregistered before others, and the baseline."""
    first = {r.prediction.metric.name for r in ranking.registered if r.prediction.counts}
    ideas = [row for row in rows if row.column.kind != "variant"]
    variants = [row for row in rows if row.column.kind == "variant"]
    shown = sorted(variants, key=lambda row: row.column.name not in first)[:top]
    base = ranking.baseline
    if base is not None and base.column not in [row.column for row in shown]:
        shown.append(base)
    return [*ideas, *shown]


def choice_notes(ranking: Ranking) -> list[str]:
    """What choosing a metric is worth, and what the chosen one may reach elsewhere."""
    lines = []
    if choice := ranking.choice:
        lines.append(
            f"choosing the largest rho on a part of the families: there {signed(choice.in_sample)},"
            f" on the other families {signed(choice.held_out)} on average "
            f"({counted(choice.splits, 'split')})"
            if choice.splits
            else "choosing on a part of the models: too few families or developers to hold out"
        )
    if not math.isnan(ranking.noise_ceiling):
        lines.append(
            "noise ceiling: by its standard errors, the target lets no metric reach more than "
            f"{unsigned(ranking.noise_ceiling, 2)} (Pearson) on average"
        )
    return lines
