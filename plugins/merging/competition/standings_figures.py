"""Figures of a ranking: rank intervals, and Pareto fronts of score against cost."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from analysis.report.drawing import CATEGORIES, FAINT, INK, SURFACE, Chart
from plugins.merging.competition.standings import Row

STEP = 24
"""Height of a row in pixels."""
HEIGHT = 260
MOST_TICKS = 12


def ranks_figure(rows: Sequence[Row], width: int) -> Chart:
    """One round: each ranked entry's rank as a point, its 95% interval as a line."""
    shown = [
        {
            "entry": row["entry"],
            "rank": row["rank"],
            "low": row["rank_low"],
            "high": row["rank_high"],
            "description": f"{row['entry']}: rank {row['rank']}"
            + ("" if row["rank_low"] is None else f", {row['rank_low']} to {row['rank_high']}"),
        }
        for row in rows
        if row["rank"] is not None
    ]
    limit = 90 if width < 500 else 220
    y = alt.Y(
        "entry:N",
        sort=[row["entry"] for row in shown],
        axis=alt.Axis(title=None, labelLimit=limit, ticks=False, domain=False),
    )
    last = max(2, len(shown))
    scale = alt.Scale(domain=[1, last], nice=False, padding=8)
    ticks = list(range(1, last + 1, 1 + last // MOST_TICKS))
    axis = alt.Axis(title="rank", values=ticks, format="d")
    base = alt.Chart(alt.Data(values=shown))
    layers = [
        base.mark_rule(strokeWidth=4, color=INK, opacity=0.3, aria=False).encode(
            x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q", y=y
        ),
        base.mark_point(filled=True, size=70, color=CATEGORIES[0], opacity=1).encode(
            x=alt.X("rank:Q", scale=scale, axis=axis), y=y, description="description:N"
        ),
    ]
    return alt.layer(*layers).properties(width=width - limit, height=STEP * len(shown))


def front_figure(rows: Sequence[Row], cost: str, width: int) -> Chart:
    """Score against cost: entries on the front filled, named and joined, the others hollow.

    Args:
        rows: rows of `ranking_fronts` for one round.
        cost: `seconds`, or `peak_bytes`, which is shown in gigabytes (10⁹ bytes).
        width: width of the figure in pixels.
    """
    in_time = cost == "seconds"
    title = "seconds of merge and evaluation" if in_time else "peak memory, GB"
    flag = "on_time_front" if in_time else "on_space_front"
    shown = [
        {
            "entry": row["entry"],
            "score": row["score"],
            "cost": row[cost] / (1 if in_time else 1e9),
            "front": row[flag],
            "description": f"{row['entry']}: score {row['score']:.3f}, "
            + (f"{row[cost]:.0f} s" if in_time else f"{row[cost] / 1e9:.2f} GB")
            + (", on the front" if row[flag] else ""),
        }
        for row in rows
    ]
    x = alt.X(
        "cost:Q",
        scale=alt.Scale(zero=False, nice=True, padding=12),
        axis=alt.Axis(title=title, tickCount=5),
    )
    y = alt.Y(
        "score:Q",
        scale=alt.Scale(zero=False, nice=True, padding=14),
        axis=alt.Axis(title="score", tickCount=5),
    )
    base = alt.Chart(alt.Data(values=shown))
    front = base.transform_filter("datum.front")
    layers = [
        front.mark_line(strokeWidth=1.5, color=FAINT, interpolate="step-after", aria=False).encode(
            x=x, y=y, order="cost:Q"
        ),
        base.transform_filter("!datum.front")
        .mark_point(size=55, color=FAINT, fill=SURFACE, strokeWidth=1.5, opacity=1)
        .encode(x=x, y=y, description="description:N"),
        front.mark_point(filled=True, size=70, color=CATEGORIES[0], opacity=1).encode(
            x=x, y=y, description="description:N"
        ),
        front.mark_text(dy=-11, color=INK, fontSize=12, limit=140, aria=False).encode(
            x=x, y=y, text="entry:N"
        ),
    ]
    return alt.layer(*layers).properties(width=width - 60, height=HEIGHT)
