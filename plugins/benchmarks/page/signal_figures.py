"""Figures of a benchmark table: scores over training, and decisions by stage."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from analysis.report.drawing import CATEGORIES, INK, NEGATIVE, POSITIVE, SURFACE, Chart
from plugins.benchmarks.page.signal_data import Curves, DecisionCell

PANEL = (290, 170)
"""Width and height of one panel of curves, in pixels."""


def curves_figure(curves: Curves, runs: Sequence[str], unit: str) -> Chart:
    """One benchmark: a line and a band per run; a ring marks the end of its early window."""
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
    """Heat map of decision accuracy: chance (0.5) is white, lower is orange, higher blue."""
    order = list(dict.fromkeys(cell.row for cell in cells))
    stages = list(dict.fromkeys(cell.stage for cell in cells))
    rows = [
        {
            "row": cell.row,
            "stage": cell.stage,
            "text": f"{cell.value:.2f}".removeprefix("0"),
            "strength": abs(cell.value - 0.5) * 2,
            "sign": "+" if cell.value >= 0.5 else "-",
            "description": f"{cell.row} at {cell.stage}: {cell.value:.3f} of {cell.pairs:,} pairs",
        }
        for cell in cells
    ]
    x = alt.X(
        "stage:N",
        sort=stages,
        axis=alt.Axis(
            title=None,
            labelAngle=-45 if max(map(len, stages)) > 5 else 0,
            labelLimit=0,
            orient="top",
            ticks=False,
            domain=False,
        ),
    )
    y = alt.Y(
        "row:N",
        sort=order,
        axis=alt.Axis(title=None, labelLimit=220, ticks=False, domain=False),
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
    plot = width - 200
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
