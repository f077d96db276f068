"""A ranking as one HTML page: scores, rank intervals, indistinguishable pairs, costs, fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from analysis.report.drawing import (
    CATEGORIES,
    FAINT,
    HALF,
    INK,
    SURFACE,
    WIDE,
    Chart,
    Drawing,
    drawn,
    html_pages,
)
from plugins.merging.competition.standings import Row, Standings
from plugins.merging.competition.standings_view import (
    drop_note,
    note,
    number,
    rivals,
    span,
    stability,
)
from warehouse.progress import Progress

STEP = 24
"""Pixels of a row."""

HEIGHT = 260
MOST_TICKS = 12


@dataclass(frozen=True)
class RoundView:
    """One round as the page shows it.

    Attributes:
        name: the round.
        rows: of `rankings`, in their order.
        alike: entry → entries that are not distinguishable from it.
        groups: task groups, in order; those of `overall` are shown with their rounds.
        win_rates: entry → task group → row of `ranking_tasks`.
        ranks: figure of the ranks' intervals; None without a ranked entry.
        fronts: time–quality and space–quality figures; none without costs.
        note: what the intervals are.
    """

    name: str
    rows: list[Row]
    alike: dict[str, list[str]]
    groups: list[str]
    win_rates: dict[str, dict[str, Row]]
    ranks: Drawing | None
    fronts: list[Drawing]
    note: str


def standings_page(standings: Standings, progress: Progress) -> str:
    """The whole page; `progress` is called for each round."""
    pages = html_pages("plugins.merging.competition")
    pages.filters.update({"number": number, "gigabytes": _gigabytes})
    rounds = []
    for place, name in enumerate(reversed(standings.rounds)):
        progress(f"round {name}", 1)
        rounds.append(_round(standings, name, f"round-{place}"))
    return pages.get_template("standings.html.j2").render(
        name=standings.name,
        rounds=rounds,
        costs=standings.marts["merge_costs"],
        drops=standings.drops,
        drop_note=drop_note,
        stability=[stability(pair) for pair in standings.marts["ranking_stability"]],
        span=span,
    )


def _round(standings: Standings, name: str, anchor: str) -> RoundView:
    rows = [row for row in standings.marts["rankings"] if row["round"] == name]
    tasks = [row for row in standings.marts["ranking_tasks"] if row["round"] == name]
    win_rates: dict[str, dict[str, Row]] = {}
    for row in tasks:
        win_rates.setdefault(row["entry"], {})[row["task_group"]] = row
    costs = [row for row in standings.marts["ranking_fronts"] if row["round"] == name]
    ranked = any(row["rank"] is not None for row in rows)
    return RoundView(
        name=name,
        rows=rows,
        alike=rivals(standings, name),
        groups=sorted({row["task_group"] for row in tasks}),
        win_rates=win_rates,
        ranks=drawn(partial(ranks_figure, rows), WIDE, f"{anchor}-ranks", "Ranks")
        if ranked
        else None,
        fronts=[
            drawn(partial(front_figure, costs, "seconds"), HALF, f"{anchor}-time",
                  "Time–quality front"),
            drawn(partial(front_figure, costs, "peak_bytes"), HALF, f"{anchor}-space",
                  "Space–quality front"),
        ]
        if costs
        else [],
        note=note(rows),
    )  # fmt: skip


def _gigabytes(count: float | None) -> str:
    return "–" if count is None else f"{count / 1e9:.2f} GB"


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
        rows: of `ranking_fronts`, of one round.
        cost: `seconds`, or `peak_bytes`, which is shown in gigabytes (10⁹ bytes).
        width: of the figure, in pixels.
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
