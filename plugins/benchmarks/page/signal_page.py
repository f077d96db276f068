"""The page of a benchmark table: score curves, decision accuracy by stage, signal statistics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import duckdb

from analysis.report.drawing import (
    CATEGORIES,
    INK,
    NEGATIVE,
    POSITIVE,
    SURFACE,
    Chart,
    html_pages,
    page_svg,
)
from plugins.benchmarks.e2lm.reasons import REASONS
from plugins.benchmarks.e2lm.score import open_table
from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS, open_problem
from plugins.benchmarks.model_sql import ModelSql, dicts
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.score_store import read_table
from plugins.benchmarks.scores.table_problem import find_table
from warehouse.paths import Workspace
from warehouse.progress import Progress

MOST_RUNS = 8
"""Maximum number of lines in a panel."""

PANEL = (290, 170)
"""Width and height of one panel of curves, in pixels."""

STATISTICS = (
    "decision_accuracy",
    "decision_pairs",
    "sq",
    "monotonicity",
    "autocorrelation",
    "snr",
    "noise_sd",
    "sampling_error",
    "rc",
)

Row = dict[str, Any]


@dataclass(frozen=True)
class SignalData:
    """All data of the page.

    metric: the scoring method of curves and decisions. runs: those with a line in a panel.
    curves: benchmark → checkpoints, with `error`, half the width of a 95% band, null if unknown.
    decisions: benchmark, stage, agreement and pairs: early scores against the benchmark's own final
    ones. signal: a row per benchmark and scoring method with `STATISTICS`, the highest decision
    accuracy first. reasons: statistic → why values of it are missing.
    """

    title: str
    description: str
    source: str
    metric: str
    unit: str
    all_runs: int
    runs: list[str]
    curves: dict[str, list[Row]]
    decisions: list[Row]
    signal: list[Row]
    reasons: dict[str, list[str]]
    notes: tuple[str, ...]


def gather_page(
    problem: str | None, scores: Path | None, metric: str | None, workspace: Workspace
) -> SignalData:
    """Data of a table's page.

    Args:
        problem: name or path of a problem of kind `table`; None with `scores`.
        scores: a plain table in the columns of `score.COLUMNS`; None with `problem`.
        metric: the scoring method that the curves show; None for the target's, or the most
            frequent.
        workspace: the checkout with problem files and SQL models.

    Raises:
        TokenmartError: the table is missing or invalid, or has no such scoring method.
    """
    target = None
    if problem is not None:
        table = find_table(problem, workspace)
        if table is None or table.predict.metrics:
            what = f"{problem} is no table of scores over training"
            raise refused("--problem", what, "other-problem")
        brought = read_table(table, workspace)
        database, target, notes = open_problem(table.name, brought), table.target, brought.notes
        title, description = table.title, table.description
    else:
        assert scores is not None
        database, notes = open_table(scores, metric)
        title, description = scores.stem, ""
    with database:
        by_count = "select metric from benchmark_scores group by 1 order by count(*) desc, 1"
        known = [row["metric"] for row in dicts(database, by_count)]
        if metric is not None and metric not in known:
            raise unknown("--metric", metric, known)
        chosen = metric or (known[0] if target is None else target.metric)
        ModelSql(database, workspace).build("benchmark_signal")
        asked = {"metric": chosen, "benchmarks": [] if target is None else list(target.benchmarks)}
        runs = _shown_runs(database)
        curves: dict[str, list[Row]] = {}
        for row in dicts(database, _CURVES, {**asked, "runs": runs}):
            curves.setdefault(row["benchmark"], []).append(row)
        (facts,) = dicts(database, _FACTS)
        return SignalData(
            title=title,
            description=description,
            metric=chosen,
            runs=runs,
            curves=curves,
            decisions=dicts(database, _DECISIONS, asked),
            signal=dicts(database, _SIGNAL, {"names": list(STATISTICS)}),
            reasons={
                row["statistic"]: [REASONS.get(code, code) for code in row["codes"]]
                for row in dicts(database, _REASONS, {"names": list(STATISTICS)})
            },
            notes=notes,
            **facts,
        )


_FACTS = """
    select
        concat(coalesce(source, path), if(licence = 'unknown', '', concat(' (', licence, ')')))
            as source,
        (select if(bool_or(tokens is not null), 'tokens', 'steps') from benchmark_scores) as unit,
        (select count(distinct model_id) from benchmark_scores) as all_runs
    from benchmark_tables
"""

_RUNS = """
    select full_id
    from int_benchmark_series
    where checkpoints > 1
    group by full_id, size, architecture, recipe
    -- the longest run of each kind; a run without a kind is one of its own
    qualify row_number() over (
        partition by coalesce(nullif(concat_ws(' ', size, architecture, recipe), ''), full_id)
        order by max(progress) desc, full_id
    ) = 1
    order by max(parameters) nulls last, size, full_id
"""

_CURVES = """
    with points as (
        select
            series.benchmark,
            series.full_id as run,
            progress,
            score,
            direction = 'lower' as lower_is_better,
            1.959964 * coalesce(stderr, signal.value) as error,
            early_checkpoint is not null
            and early_checkpoint = max(early_checkpoint) over run as ends,
            -- 30 parts of the log scale
            floor(30 * ln(progress / min(progress) over run)
                / nullif(ln(max(progress) over run / min(progress) over run), 0)) as part
        from int_benchmark_series as series
        left join benchmark_signal as signal
            on series.full_id = signal.model
            and series.benchmark = signal.benchmark
            and series.metric = signal.metric
            and signal.statistic = 'noise_sd'
        where series.metric = $metric
            and (len($benchmarks) = 0 or series.benchmark in (select unnest($benchmarks)))
            and series.full_id in (select unnest($runs))
            and progress > 0
            and checkpoints > 1
        window run as (partition by series.model_id, series.benchmark)
    )

    select * exclude (part)
    from points
    -- the last checkpoint of each part, and both ends
    qualify ends or row_number() over (
        partition by benchmark, run, part order by progress desc
    ) = 1 or row_number() over (partition by benchmark, run order by progress) = 1
    order by benchmark, progress
"""

_DECISIONS = f"""
    select
        benchmark,
        case kind when 'size' then concat(stage, ' → ', later_stage) else stage end as stage,
        agreement,
        pairs
    from int_benchmark_decisions
    where metric = $metric
        and later_metric = metric
        and pairs >= {FEWEST_PAIRS}
        and (len($benchmarks) = 0 or benchmark in (select unnest($benchmarks)))
        and (
            kind = 'size'
            or kind = 'share'
            and (round(100 * position) in (5, 25) or round(100 * position) % 10 = 0)
        )
    order by benchmark, position, later_position
"""

_SIGNAL = f"""
    with means as (
        select
            benchmark,
            metric,
            statistic,
            avg(value) as value,
            if(count(model) > 1, [min(value), max(value)], null) as range_over_runs
        from benchmark_signal
        where statistic in (select unnest($names))
        group by all
    ),

    shown as (
        select
            benchmark,
            metric,
            {
    ", ".join(
        f"any_value(value) filter (where statistic = '{name}') as {name}" for name in STATISTICS
    )
},
            any_value(range_over_runs) filter (where statistic = 'sq') as sq_range
        from means
        group by benchmark, metric
    )

    select * replace (
        if(decision_pairs < {FEWEST_PAIRS}, null, decision_accuracy) as decision_accuracy
    )
    from shown
    order by decision_accuracy desc nulls last, benchmark, metric
"""

_REASONS = """
    select statistic, list(distinct reason order by reason) as codes
    from benchmark_signal
    where reason is not null and statistic in (select unnest($names))
    group by statistic
    order by statistic
"""


def _shown_runs(database: duckdb.DuckDBPyConnection) -> list[str]:
    """Longest run of each size, architecture and recipe, smallest first, at most `MOST_RUNS`."""
    names = [row["full_id"] for row in dicts(database, _RUNS)]
    if len(names) <= MOST_RUNS:
        return names
    step = (len(names) - 1) / (MOST_RUNS - 1)
    return [names[round(step * place)] for place in range(MOST_RUNS)]


def signal_page(data: SignalData, progress: Progress) -> str:
    """Render the page; `progress` is called for each panel and for the heat map."""
    panels = {}
    for benchmark, points in data.curves.items():
        progress(f"curves: {benchmark}", 1)
        figure = _curves_figure(points, data.runs, data.unit)
        panels[benchmark] = page_svg(figure, f"{benchmark}: score over training")
    progress("decisions", 1)
    decisions = _decisions_figure(data.decisions) if data.decisions else None
    return (
        html_pages("plugins.benchmarks.page")
        .get_template("signal.html.j2")
        .render(
            data=data,
            panels=panels,
            keys=list(zip(data.runs, CATEGORIES, strict=False)),
            decisions=decisions and page_svg(decisions, "Decision accuracy by benchmark"),
            fewest_pairs=FEWEST_PAIRS,
        )
    )


def _curves_figure(points: list[Row], runs: list[str], unit: str) -> Chart:
    """One benchmark: a line and a band per run; a ring marks the end of its early window."""
    rows = [
        {
            **point,
            "low": point["score"] - (point["error"] or 0),
            "high": point["score"] + (point["error"] or 0),
            "description": f"{point['benchmark']}, {point['run']}: {point['score']:.3f} "
            f"after {_short(point['progress'])} {unit}",
        }
        for point in points
    ]
    ends = [point["progress"] for point in points]
    x = alt.X(
        "progress:Q",
        scale=alt.Scale(type="log", domain=[min(ends), max(ends)], nice=False, padding=4),
        axis=alt.Axis(
            title=None,
            tickCount=4,
            labelOverlap="greedy",
            labelExpr="replace(format(datum.value, '~s'), 'G', 'B')",
        ),
    )
    vertical = {
        "scale": alt.Scale(nice=False, zero=False, padding=6),
        "axis": alt.Axis(title=None, tickCount=4),
    }
    y = alt.Y("score:Q", **vertical)
    colours = alt.Scale(domain=runs, range=list(CATEGORIES[: len(runs)]))
    colour = alt.Color("run:N", scale=colours, legend=None)
    base = alt.Chart(alt.Data(values=rows))
    layers = [
        base.mark_area(opacity=0.16, aria=False).encode(
            x=x, y=alt.Y("low:Q", **vertical), y2="high:Q", color=colour
        ),
        base.mark_line(strokeWidth=1.8, aria=False).encode(x=x, y=y, color=colour),
        base.mark_point(filled=True, size=16, opacity=1).encode(
            x=x, y=y, color=colour, description="description:N"
        ),
        base.transform_filter("datum.ends")
        .mark_point(size=55, strokeWidth=2, fill=SURFACE, opacity=1, aria=False)
        .encode(x=x, y=y, color=colour),
    ]
    return alt.layer(*layers).properties(width=PANEL[0], height=PANEL[1])


def _decisions_figure(cells: list[Row]) -> Chart:
    """Heat map of decision accuracy: chance (0.5) is white, lower is orange, higher blue."""
    stages = list(dict.fromkeys(cell["stage"] for cell in cells))
    rows = [
        {
            **cell,
            "text": f"{cell['agreement']:.2f}".removeprefix("0"),
            "strength": abs(cell["agreement"] - 0.5) * 2,
            "sign": "+" if cell["agreement"] >= 0.5 else "-",
            "description": f"{cell['benchmark']} at {cell['stage']}: {cell['agreement']:.3f} of "
            f"{cell['pairs']:,} pairs",
        }
        for cell in cells
    ]
    x = alt.X(
        "stage:N", sort=stages, axis=alt.Axis(title=None, orient="top", ticks=False, domain=False)
    )
    y = alt.Y("benchmark:N", axis=alt.Axis(title=None, labelLimit=220, ticks=False, domain=False))
    base = alt.Chart(alt.Data(values=rows))
    signs = alt.Scale(domain=["+", "-"], range=[POSITIVE, NEGATIVE])
    strengths = alt.Scale(domain=[0, 1], range=[0.03, 0.62])
    cell = base.mark_rect(stroke=SURFACE, strokeWidth=1).encode(
        x=x,
        y=y,
        color=alt.Color("sign:N", scale=signs, legend=None),
        opacity=alt.Opacity("strength:Q", scale=strengths, legend=None),
        description="description:N",
    )
    text = base.mark_text(color=INK, fontSize=10, aria=False).encode(x=x, y=y, text="text:N")
    return alt.layer(cell, text).properties(width=alt.Step(38), height=alt.Step(24))


def _short(count: float) -> str:
    """12.3B for 12,300,000,000."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:g}"
