"""The page of a benchmark table: curves over training, the signal table, and decisions by stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import altair as alt
from markupsafe import Markup

from analysis.report.drawing import (
    CATEGORIES,
    INK,
    NEGATIVE,
    POSITIVE,
    SURFACE,
    Chart,
    Drawing,
    drawn,
    html_pages,
    page_svg,
    variable_of,
)
from plugins.benchmarks.e2lm.score import open_table, table_notes
from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.page.signal_data import (
    FEWEST_PAIRS,
    Curves,
    DecisionCell,
    SignalData,
    SignalRow,
    gather_signal,
)
from plugins.benchmarks.scores.table_problem import TableProblem, find_table, read_table
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.progress import Progress

WIDE = 860
FIRST_ROWS = 60
"""Rows of the signal table in sight; the others unfold."""

PANEL = (290, 170)
"""Width and height of one panel of curves, in pixels."""


def signal_page(data: SignalData, progress: Progress) -> str:
    """The whole page; `progress` is called for each panel and for both heat maps."""
    pages = html_pages("plugins.benchmarks.page")
    panels = {}
    for number, curves in enumerate(data.curves):
        progress(f"curves: {curves.benchmark}", 1)
        figure = curves_figure(curves, data.shown_runs, data.unit)
        title = f"{curves.benchmark}: score over training"
        panels[curves.benchmark] = Markup(page_svg(figure, f"curves-{number}", title))
    progress("decisions", 1)
    return pages.get_template("signal.html.j2").render(
        data=data,
        panels=panels,
        keys=[
            (run, variable_of(CATEGORIES[index % len(CATEGORIES)]))
            for index, run in enumerate(data.shown_runs)
        ],
        decisions=_heat_map(data.decisions, "decisions", "Decision accuracy by benchmark"),
        by_reading=_heat_map(data.by_reading, "readings", "Decision accuracy by reading"),
        own={row.benchmark: row for row in data.rows if row.metric == data.metric},
        reasons=_reasons(data.rows),
        fewest_pairs=FEWEST_PAIRS,
        first_rows=FIRST_ROWS,
    )


def _heat_map(cells: Sequence[DecisionCell], name: str, title: str) -> Drawing | None:
    if not cells:
        return None
    return drawn(partial(decisions_figure, cells), WIDE, name, title)


def _reasons(rows: Sequence[SignalRow]) -> dict[str, list[str]]:
    """Statistic → why some of its values are missing, each reason once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, statistic in row.statistics.items():
            if statistic.reason and statistic.reason not in found.setdefault(name, []):
                found[name].append(statistic.reason)
    return {name: reasons for name, reasons in sorted(found.items()) if reasons}


def curves_figure(curves: Curves, runs: Sequence[str], unit: str) -> Chart:
    """One benchmark: a line and a band per run; a ring ends its early window."""
    rows = [
        {
            "run": point.run,
            "progress": point.progress,
            "score": point.score,
            "low": point.score - (point.error or 0),
            "high": point.score + (point.error or 0),
            "ends": point.ends_window,
            "description": f"{curves.benchmark}, {point.run}: {point.score:.3f}"
            + (f" ± {point.error:.3f}" if point.error is not None else "")
            + f" after {_short(point.progress)} {unit}",
        }
        for point in curves.points
    ]
    first = min(point.progress for point in curves.points)
    last = max(point.progress for point in curves.points)
    x_scale = alt.Scale(type="log", domain=[first, last], nice=False, padding=4)
    x = alt.X(
        "progress:Q",
        scale=x_scale,
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
    colour = alt.Color(
        "run:N",
        scale=alt.Scale(
            domain=list(runs), range=[CATEGORIES[i % len(CATEGORIES)] for i in range(len(runs))]
        ),
        legend=None,
    )
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


def decisions_figure(cells: Sequence[DecisionCell], width: int) -> Chart:
    """Heat map of decision accuracy: chance (0.5) is blank, orange below, blue above."""
    order = list(dict.fromkeys(cell.row for cell in cells))
    stages = list(dict.fromkeys(cell.stage for cell in cells))
    rows = [
        {
            "row": cell.row,
            "stage": cell.stage,
            "text": f"{cell.value:.2f}".removeprefix("0"),
            "strength": abs(cell.value - 0.5) * 2,
            "sign": "+" if cell.value >= 0.5 else "-",
            "description": f"{cell.row} at {cell.stage}: {cell.value:.3f} of the pairs",
        }
        for cell in cells
    ]
    narrow = width < 500
    x = alt.X(
        "stage:N",
        sort=stages,
        axis=alt.Axis(
            title=None,
            labelAngle=-45 if narrow or max(map(len, stages)) > 5 else 0,
            labelLimit=0,
            orient="top",
            ticks=False,
            domain=False,
        ),
    )
    y = alt.Y(
        "row:N",
        sort=order,
        axis=alt.Axis(title=None, labelLimit=110 if narrow else 220, ticks=False, domain=False),
    )
    base = alt.Chart(alt.Data(values=rows))
    layers = [
        base.mark_rect(stroke=SURFACE, strokeWidth=1).encode(
            x=x,
            y=y,
            color=alt.Color(
                "sign:N",
                scale=alt.Scale(domain=["+", "-"], range=[POSITIVE, NEGATIVE]),
                legend=None,
            ),
            opacity=alt.Opacity(
                "strength:Q", scale=alt.Scale(domain=[0, 1], range=[0.03, 0.62]), legend=None
            ),
            description="description:N",
        )
    ]
    plot = width - (110 if narrow else 200)
    cell_width = min(plot / len(stages), 110)
    if cell_width >= 24:
        text = base.mark_text(color=INK, fontSize=10 if cell_width < 30 else 11, aria=False)
        layers.append(text.encode(x=x, y=y, text="text:N"))
    return alt.layer(*layers).properties(
        width=round(cell_width * len(stages)), height=24 * len(order)
    )


def _short(count: float) -> str:
    """12.3B for 12,300,000,000."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:g}"


def gather_page(
    problem: str | None, scores: Path | None, metric: str | None, workspace: Workspace
) -> tuple[SignalData, tuple[str, ...]]:
    """The signal models of a table, read for its page, and notes for the reader.

    Args:
        problem: name or path of a problem of kind `table`; None with `scores`.
        scores: a plain table in the columns of `score.COLUMNS`; None with `problem`.
        metric: the reading that the curves show; None for the target's, or the most frequent.
        workspace: whose problem files and SQL models are used.

    Raises:
        TokenmartError: no table, a wrong one, or no such reading in it.
    """
    found = _table_problem(problem, workspace) if problem is not None else None
    if found is not None:
        database = open_problem(found.name, read_table(found, workspace))
        title, description = found.title, found.description
    else:
        assert scores is not None
        database = open_table(scores)
        title, description = scores.stem, ""
    target = found.target if found is not None else None
    with database:
        known = [
            name
            for (name,) in database.execute(
                "select metric from benchmark_scores group by 1 order by count(*) desc, 1"
            ).fetchall()
        ]
        if metric is not None and metric not in known:
            raise TokenmartError(
                f"--metric {metric}: not in the table; {did_you_mean(metric, known)}"
                f"its readings: {', '.join(known)}"
            )
        chosen = metric or (target.metric if target is not None else known[0])
        models = ModelSql(database, workspace)
        for name in ("benchmark_signal", "signal_statistics"):
            models.build(name)
        data = gather_signal(
            database, title, description, chosen, target.benchmarks if target is not None else ()
        )
        return data, () if found is not None else table_notes(database)


def _table_problem(name: str, workspace: Workspace) -> TableProblem:
    found = find_table(name, workspace)
    if found is None or found.predict.metrics:
        what = "is no table of scores" if found is None else "ranks models, not runs over training"
        raise TokenmartError(f"--problem {name}: it {what}; name one of kind table over training")
    return found
