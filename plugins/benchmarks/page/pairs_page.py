"""Render the page on pairs of models: a heat map per task, and the power of each comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median

import altair as alt

from analysis.report.drawing import (
    INK,
    NEGATIVE,
    POSITIVE,
    SURFACE,
    WIDE,
    Chart,
    Drawing,
    drawn,
    html_pages,
)
from plugins.benchmarks.page.pairs_data import Pair, TaskPairs
from warehouse.progress import Progress

CELL = 46
"""Maximum width of a heat map's cell in pixels."""

STRONGEST = 3.0
"""Number of standard errors from which a cell has its full colour."""


@dataclass(frozen=True)
class TaskView:
    """Data of a task on the page; `smallest` is the median over its pairs, None without errors."""

    task: TaskPairs
    heat_map: Drawing
    distinguishable: int
    smallest: float | None


def pairs_page(title: str, tasks: tuple[TaskPairs, ...], progress: Progress) -> str:
    """Render the page; `progress` is called for each task."""
    pages = html_pages("plugins.benchmarks.page")
    views = []
    for number, task in enumerate(tasks):
        progress(task.condition, 1)
        known = [p.smallest_difference for p in task.pairs if p.smallest_difference is not None]
        name = f"{task.condition}, {task.metric}: every two models"
        views.append(
            TaskView(
                task=task,
                heat_map=drawn(partial(pairs_figure, task), WIDE, f"pairs-{number}", name),
                distinguishable=sum(pair.is_distinguishable for pair in task.pairs),
                smallest=median(known) if known else None,
            )
        )
    return pages.get_template("pairs.html.j2").render(title=title, views=views)


def pairs_figure(task: TaskPairs, width: int) -> Chart:
    """Heat map: score of the row's model minus score of the column's model, best models first.

    Blue: the row's model is better, orange: worse. The intensity is |difference| in standard
    errors, up to `STRONGEST`. Pairs that are not distinguishable have a dot before their number.
    """
    sign = -1 if task.better == "lower" else 1
    rows = []
    for pair in task.pairs:
        for row, column, turn in ((pair.model, pair.other, 1), (pair.other, pair.model, -1)):
            difference = turn * pair.difference
            rows.append(
                {
                    "row": row,
                    "column": column,
                    "sign": "+" if sign * difference >= 0 else "-",
                    "strength": _strength(pair),
                    "text": ("" if pair.is_distinguishable else "·") + _signed(difference),
                    "description": f"{row} minus {column}: {difference:+.4g}"
                    + ("" if pair.stderr is None else f" ± {1.96 * pair.stderr:.2g}")
                    + f" on {pair.items} items, "
                    + ("" if pair.is_distinguishable else "not ")
                    + "distinguishable",
                }
            )
    names = list(task.models)
    narrow = width < 500
    limit = 110 if narrow else 200
    axis = {"title": None, "ticks": False, "domain": False, "labelLimit": limit}
    x = alt.X("column:N", sort=names, axis=alt.Axis(labelAngle=-45, orient="top", **axis))
    y = alt.Y("row:N", sort=names, axis=alt.Axis(**axis))
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
    cell = min((width - limit) / len(names), CELL)
    if cell >= 30:
        text = base.mark_text(color=INK, fontSize=10, aria=False)
        layers.append(text.encode(x=x, y=y, text="text:N"))
    return alt.layer(*layers).properties(
        width=round(cell * len(names)), height=round(min(cell, 28) * len(names))
    )


def _strength(pair: Pair) -> float:
    if not pair.stderr:
        return float(pair.is_distinguishable)
    return min(1.0, abs(pair.difference) / pair.stderr / STRONGEST)


def _signed(difference: float) -> str:
    return f"{difference:+.2g}".replace("+0.", "+.").replace("-0.", "−.").replace("-", "−")
