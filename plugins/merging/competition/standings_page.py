"""A ranking as one HTML page: scores, rank intervals, indistinguishable pairs, costs, fronts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from analysis.report.drawing import HALF, WIDE, Drawing, drawn, html_pages
from plugins.merging.competition.ranking_table import OVERALL
from plugins.merging.competition.standings import Row, Standings
from plugins.merging.competition.standings_figures import front_figure, ranks_figure
from plugins.merging.competition.standings_view import (
    DEFINITIONS,
    drop_note,
    limits_broken,
    notes,
    number,
    reason,
    rivals,
    rows_of,
    span,
    stability,
    verdict,
)
from warehouse.progress import Progress


@dataclass(frozen=True)
class RoundView:
    """Data of one round on the page.

    Attributes:
        name: the round.
        rows: rows of `rankings`, in order.
        verdict: sentence on the highest score.
        alike: entry → entries that are not distinguishable from it.
        reasons: entry without a score → why.
        groups: task groups, in order; groups of `overall` are shown with their rounds.
        win_rates: entry → task group → row of `ranking_tasks`.
        ranks: figure of the ranks' intervals; None without a tested entry.
        fronts: figures of score against time and memory; none without costs.
        notes: sentences that change how a reader takes the ranking.
    """

    name: str
    rows: list[Row]
    verdict: str
    alike: dict[str, list[str]]
    reasons: dict[str, str]
    groups: list[str]
    win_rates: dict[str, dict[str, Row]]
    ranks: Drawing | None
    fronts: list[Drawing]
    notes: list[str]


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
        stability=[stability(pair) for pair in standings.marts["ranking_stability"]],
        definitions=DEFINITIONS,
        limits_broken=limits_broken,
        span=span,
    )


def _overall_first(rounds: list[str]) -> list[str]:
    return sorted(rounds, key=lambda name: name != OVERALL)


def _round(standings: Standings, name: str, anchor: str) -> RoundView:
    rows = rows_of(standings, name)
    tasks = [row for row in standings.marts["ranking_tasks"] if row["round"] == name]
    win_rates: dict[str, dict[str, Row]] = {}
    for row in tasks:
        win_rates.setdefault(row["entry"], {})[row["task_group"]] = row
    costs = [row for row in standings.marts["ranking_fronts"] if row["round"] == name]
    ranks = None
    if any(row["rank_low"] is not None for row in rows):
        ranks = drawn(lambda width: ranks_figure(rows, width), WIDE, f"{anchor}-ranks", "Ranks")
    fronts = [
        drawn(partial(front_figure, costs, cost), HALF, f"{anchor}-{end}", f"{title} front")
        for cost, end, title in (("seconds", "time", "Time"), ("peak_bytes", "space", "Space"))
        if costs
    ]
    return RoundView(
        name=name,
        rows=rows,
        verdict=verdict(standings, name),
        alike=rivals(standings, name),
        reasons={row["entry"]: reason(row, standings) for row in rows if row["score"] is None},
        groups=sorted({row["task_group"] for row in tasks}),
        win_rates=win_rates,
        ranks=ranks,
        fronts=fronts,
        notes=notes(standings, name),
    )


def _gigabytes(count: float | None) -> str:
    return "–" if count is None else f"{count / 1e9:.2f} GB"
