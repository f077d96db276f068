"""The measured target as heat maps: score by length and by depth, a small panel per model."""

from __future__ import annotations

from typing import Any

import altair as alt

from analysis.report.data import DepthCell
from analysis.report.figures import Chart
from analysis.report.palette import FAINT, INK, POSITIVE, SURFACE

PANEL = 110
"""Pixels of a panel's sides."""

GAP = 62
"""Pixels between panels, axis labels included."""


def depth_figure(cells: tuple[DepthCell, ...], width: int) -> Chart:
    """Length on the x axis, depth on the y axis: the start of a context is at the top. Darker is
    better.
    """
    models = list(dict.fromkeys(cell.model for cell in cells))
    columns = max(1, (width + GAP - 44) // (PANEL + GAP))
    rows: list[dict[str, Any]] = [
        {
            "model": cell.model,
            "length": f"{cell.length / 1024:.2g}k",
            "depth": _percent(cell.eighth),
            "score": cell.score,
            "description": f"{cell.model}, {cell.length:,} tokens, answer {_percent(cell.eighth)} "
            f"to {_percent(cell.eighth + 1)} into them: {cell.score:.2f} of {cell.items} items",
        }
        for cell in cells
    ]
    lengths = [f"{length / 1024:.2g}k" for length in sorted({cell.length for cell in cells})]
    depths = [_percent(eighth) for eighth in range(8)]
    label = {"labelColor": INK, "labelFontSize": 10, "ticks": False, "domain": False}
    tiles = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke=SURFACE, strokeWidth=1, color=POSITIVE)
        .encode(
            x=alt.X("length:O", sort=lengths, axis=alt.Axis(title=None, labelAngle=0, **label)),
            y=alt.Y(
                "depth:O",
                sort=depths,
                scale=alt.Scale(domain=depths),
                axis=alt.Axis(title=None, values=["0%", "50%"], **label),
            ),
            opacity=alt.Opacity(
                "score:Q", scale=alt.Scale(domain=[0, 1], range=[0.03, 1]), legend=None
            ),
            description="description:N",
        )
        .properties(width=PANEL, height=PANEL)
    )
    header = alt.Header(title=None, labelColor=FAINT, labelFontSize=10, labelLimit=PANEL + GAP - 6)
    facet = alt.Facet("model:N", sort=models, header=header)
    return tiles.facet(facet=facet, columns=columns, spacing=GAP - 30)


def _percent(eighths: int) -> str:
    return f"{100 * eighths / 8:g}%"
