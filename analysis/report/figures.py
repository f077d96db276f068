"""The report's figures as Altair charts. Models are numbered, as in the page's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from analysis.report.drawing import CATEGORIES, FAINT, HALF, INK, SURFACE, Chart
from analysis.statistics.skipped import mcd_skipped

if TYPE_CHECKING:
    from analysis.ranking.metric_table import MetricTable
    from analysis.ranking.results import RankedMetric

MOST_NUMBERED = 40
"""Points; more are small and have no numbers."""

SKEWED = 20
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


def family_colours(families: Iterable[str]) -> dict[str, str]:
    """Family → colour, in order of first appearance; beyond eight they repeat."""
    names = list(dict.fromkeys(families))
    return {name: CATEGORIES[index % len(CATEGORIES)] for index, name in enumerate(names)}


def scatter_figure(
    table: MetricTable,
    row: RankedMetric,
    numbers: dict[str, int],
    colours: dict[str, str],
    seed: int,
) -> Chart:
    """One metric against the target: a numbered point per model.

    Points that the MCD filter of the skipped correlation drops are hollow.

    Args:
        table: with the target.
        row: the metric.
        numbers: model id → number in the page's tables.
        colours: family → colour.
        seed: of the filter.
    """
    column = row.column
    present = np.flatnonzero(column.present)
    kept = mcd_skipped(column.values[present], table.target[present], seed).keep
    points = [
        {
            "number": numbers[table.models[place].model_id],
            "family": table.models[place].family,
            "value": float(column.values[place]),
            "target": float(table.target[place]),
            "kept": bool(keep),
            "description": f"{table.models[place].full_id}: {column.values[place]:.4g}, "
            f"target {table.target[place]:.4g}",
        }
        for place, keep in zip(present, kept, strict=True)
    ]
    values = column.values[present]
    log = values.min() > 0 and values.max() / values.min() > SKEWED
    x = alt.X(
        "value:Q",
        scale=alt.Scale(
            type="log" if log else "linear",
            zero=False,
            padding=14,
            reverse=column.direction == "lower",
        ),
        axis=alt.Axis(
            title=f"value{', log scale' if log else ''} (better →)",
            tickCount=4,
            labelOverlap="greedy",
        ),
    )
    y = alt.Y(
        "target:Q",
        scale=alt.Scale(zero=False, padding=14),
        axis=alt.Axis(title="target", tickCount=5),
    )
    base = alt.Chart(alt.Data(values=points)).encode(x=x, y=y, description="description:N")
    numbered = len(points) <= MOST_NUMBERED
    look = {"size": 260 if numbered else 60, "strokeWidth": 1.5, "opacity": 1}
    circle = base.mark_circle(**look).encode(
        stroke=_by_family(alt.Stroke, colours), fill=_by_family(alt.Fill, colours)
    )
    hollow = base.mark_circle(**look, fill=SURFACE).encode(stroke=_by_family(alt.Stroke, colours))
    number = base.mark_text(fontSize=10.5, fontWeight="bold", aria=False).encode(
        text="number:Q", color=alt.condition("datum.kept", alt.value(SURFACE), alt.value(INK))
    )
    layers = [circle.transform_filter("datum.kept"), hollow.transform_filter("!datum.kept")]
    return alt.layer(*layers, *([number] if numbered else [])).properties(
        width=HALF, height=round(0.8 * HALF)
    )


def profile_figure(
    bands: Sequence[dict[str, Any]], what: str, numbers: dict[str, int], colours: dict[str, str]
) -> Chart:
    """NLL or gain along the document: a line per model with its number at the end.

    Args:
        bands: rows of `position_profile` with the family and the middle of the band.
        what: `nll` or `gain`, in nats.
        numbers: model id → number in the page's tables.
        colours: family → colour.
    """
    points = [
        {
            "number": numbers[band["model_id"]],
            "family": band["family"],
            "position": band["position"],
            "value": band[what],
            "description": f"{band['model_id']}, around token {band['position']:.0f}: "
            f"{band[what]:.3f} nats, {band['tokens']:,} tokens",
        }
        for band in bands
    ]
    last = {point["number"]: point for point in points}
    x = alt.X(
        "position:Q",
        scale=alt.Scale(type="log", base=2, nice=False, padding=8),
        axis=alt.Axis(
            title="position in the document, tokens",
            grid=False,
            values=[2**power for power in range(3, 24)],
            labelExpr="datum.value >= 1024 ? datum.value / 1024 + 'k' : datum.value",
            labelOverlap="greedy",
        ),
    )
    title = "NLL" if what == "nll" else "gain from long context"
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(zero=what == "gain", padding=6),
        axis=alt.Axis(title=f"{title}, nats per token", tickCount=6),
    )
    lines = alt.Chart(alt.Data(values=points)).encode(
        x=x, y=y, color=_by_family(alt.Color, colours), detail="number:N"
    )
    layers = [
        lines.mark_line(strokeWidth=1.8, opacity=0.8, aria=False),
        lines.mark_circle(size=24, opacity=1).encode(description="description:N"),
        alt.Chart(alt.Data(values=list(last.values())))
        .mark_text(align="left", dx=7, fontSize=10.5, color=FAINT, aria=False)
        .encode(x=x, y=y, text="number:Q"),
    ]
    return alt.layer(*layers).properties(width=HALF, height=round(0.62 * HALF))


def _by_family(channel: Any, colours: dict[str, str]) -> Any:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return channel("family:N", scale=scale, legend=None)
