"""A ranking as one HTML page: scores, rank intervals, indistinguishable pairs, costs, fronts."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.report.drawing import HALF, WIDE, Drawing, drawn, html_pages
from plugins.merging.competition.ranking_table import OVERALL
from plugins.merging.competition.standings import Row, Standings
from plugins.merging.competition.standings_figures import front_figure, ranks_figure
from plugins.merging.competition.standings_view import (
    drop_note,
    first_of,
    no_overall,
    note,
    number,
    rivals,
    round_notes,
    span,
    stability,
    untested,
)
from warehouse.progress import Progress


@dataclass(frozen=True)
class RoundView:
    """Data of one round on the page.

    Attributes:
        name: the round.
        rows: rows of `rankings`, in order.
        first: sentence on the highest score; empty if no entry has one.
        alike: entry → entries that are not distinguishable from it.
        untested: why its pairs were not tested; empty if they were.
        groups: task groups, in order; groups of `overall` are shown with their rounds.
        win_rates: entry → task group → row of `ranking_tasks`.
        ranks: figure of the ranks' intervals; None without a ranked entry.
        fronts: figures of score against time and memory; none without costs.
        results: sentences on missing results and on values on another scale.
        note: description of the intervals.
    """

    name: str
    rows: list[Row]
    first: str
    alike: dict[str, list[str]]
    untested: str
    groups: list[str]
    win_rates: dict[str, dict[str, Row]]
    ranks: Drawing | None
    fronts: list[Drawing]
    results: list[str]
    note: str


def standings_page(standings: Standings, progress: Progress) -> str:
    """Render the page; `progress` is called for each round."""
    pages = html_pages("plugins.merging.competition")
    pages.filters.update({"number": number, "gigabytes": _gigabytes})
    rounds = []
    for place, name in enumerate(_overall_first(standings.rounds)):
        progress(f"round {name}", 1)
        rounds.append(_round(standings, name, f"round-{place}"))
    return pages.get_template("standings.html.j2").render(
        name=standings.name,
        rounds=rounds,
        costs=standings.marts["merge_costs"],
        drops=standings.drops,
        drop_notes={name: drop_note(standings, name) for name in standings.drops},
        stability=[
            *no_overall(standings),
            *(stability(pair) for pair in standings.marts["ranking_stability"]),
        ],
        span=span,
    )


def _overall_first(rounds: list[str]) -> list[str]:
    return sorted(rounds, key=lambda name: name != OVERALL)


def _round(standings: Standings, name: str, anchor: str) -> RoundView:
    rows = [row for row in standings.marts["rankings"] if row["round"] == name]
    tasks = [row for row in standings.marts["ranking_tasks"] if row["round"] == name]
    win_rates: dict[str, dict[str, Row]] = {}
    for row in tasks:
        win_rates.setdefault(row["entry"], {})[row["task_group"]] = row
    costs = [row for row in standings.marts["ranking_fronts"] if row["round"] == name]
    reason = untested(standings, name)
    ranked = any(row["rank"] is not None for row in rows)
    return RoundView(
        name=name,
        rows=rows,
        first=first_of(rows) if ranked else "",
        alike=rivals(standings, name),
        untested=reason,
        groups=sorted({row["task_group"] for row in tasks}),
        win_rates=win_rates,
        ranks=drawn(lambda width: ranks_figure(rows, width), WIDE, f"{anchor}-ranks", "Ranks")
        if ranked
        else None,
        fronts=[
            drawn(lambda width: front_figure(costs, "seconds", width), HALF, f"{anchor}-time",
                   "Time–quality front"),
            drawn(lambda width: front_figure(costs, "peak_bytes", width), HALF, f"{anchor}-space",
                   "Space–quality front"),
        ]
        if costs
        else [],
        results=round_notes(standings, name),
        note=note(standings, name, reason),
    )  # fmt: skip


def _gigabytes(count: float | None) -> str:
    return "–" if count is None else f"{count / 1e9:.2f} GB"
