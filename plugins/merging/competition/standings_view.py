"""A ranking as a table in the terminal, and in words what it does not say."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.statistics.sign_flip import MINIMUM_GROUPS
from plugins.merging.competition.standings import OPEN, Row, Standings
from warehouse.errors import visible
from warehouse.terminal import print_whole

MOST_NAMES = 6
LEAST_GROUPS = 5
"""As int_ranking_draws.sql has it."""


def rivals(standings: Standings, round_name: str) -> dict[str, list[str]]:
    """Entry → entries of the round that it isn't distinguishable from, by name."""
    found: dict[str, list[str]] = {}
    for pair in standings.marts["ranking_pairs"]:
        if pair["round"] == round_name and not pair["distinguishable"]:
            found.setdefault(pair["entry"], []).append(pair["other_entry"])
            found.setdefault(pair["other_entry"], []).append(pair["entry"])
    return {entry: sorted(names) for entry, names in found.items()}


def print_standings(standings: Standings, round_name: str | None = None) -> None:
    """One table a round, and notes on how to read it."""
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 150)
    for name in standings.rounds:
        if round_name in (None, name):
            _print_round(console, standings, name)
    for pair in standings.marts["ranking_stability"]:
        if round_name in (None, pair["round"], pair["other_round"]):
            console.print(visible(stability(pair)), highlight=False)
    if round_name in (None, OPEN):
        for name, rows in standings.drops.items():
            _print_drops(console, name, rows)


def _print_drops(console: Console, name: str, rows: list[Row]) -> None:
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("entry", overflow="fold")
    for heading in (OPEN, name, "drop", "95%"):
        view.add_column(visible(heading), justify="right", no_wrap=True)
    for row in rows:
        interval = span(row["drop_low"], row["drop_high"])
        scores = (number(row[key]) for key in ("score", "other_score", "drop"))
        view.add_row(visible(row["entry"]), *scores, interval)
    console.print(visible(f"from {OPEN} to {name}"), style="bold", highlight=False)
    print_whole(console, view)
    console.print(visible(drop_note(rows)), style="dim", highlight=False)


def drop_note(rows: list[Row]) -> str:
    """What a drop of the first of so many entries means, in words."""
    return (
        f"{rows[0]['entries']} entries were compared in the open round; the first of many falls "
        "elsewhere by chance alone, and what was tuned on the round falls further"
    )


def _print_round(console: Console, standings: Standings, name: str) -> None:
    rows = [row for row in standings.marts["rankings"] if row["round"] == name]
    alike = rivals(standings, name)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("rank", justify="right")
    view.add_column("entry", overflow="fold")
    for heading in ("score", "95%", "rank 95%", "geometric", "product"):
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("not distinguishable from", overflow="fold")
    for row in rows:
        names = alike.get(row["entry"], [])
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        view.add_row(
            number(row["rank"]),
            visible(row["entry"]),
            number(row["score"]),
            span(row["score_low"], row["score_high"]),
            span(row["rank_low"], row["rank_high"]),
            number(row["geometric_mean"]),
            number(row["product"]),
            visible(", ".join(names[:MOST_NAMES]) + more),
        )
    console.print(visible(f"{standings.name}, round {name}"), style="bold", highlight=False)
    print_whole(console, view)
    for row in rows:
        if row["reason"]:
            console.print(visible(f"not ranked: {row['entry']}: {row['reason']}"), highlight=False)
    console.print(note(rows), style="dim", highlight=False)


def note(rows: list[Row]) -> str:
    """What was resampled for a round's intervals, and how far they can be trusted."""
    first = rows[0]
    draws = max(row["draws"] for row in rows)
    of_tasks = "tasks" in (first["resampled"] or "")
    if not draws:
        least = f"; results without items take {LEAST_GROUPS} groups of tasks for that"
        return "no intervals: nothing was resampled" + (least if of_tasks else "")
    if of_tasks:
        return (
            f"95%: {first['resampled']} resampled {draws} times, approximate with few groups; "
            f"pairs: exact sign-flip test over groups of tasks, at least {MINIMUM_GROUPS}, "
            "adjusted for the number of pairs (Holm)"
        )
    return (
        f"95%: {first['resampled']} resampled {draws} times; the pairs are not adjusted for their "
        "number"
    )


def stability(pair: Row) -> str:
    """How alike two rounds order their entries, in words."""
    return (
        f"{pair['round']} and {pair['other_round']}: Spearman {number(pair['spearman'])} over "
        f"{pair['entries']} entries (resampled: "
        f"{span(pair['spearman_low'], pair['spearman_high'])})"
    )


def number(value: Any) -> str:
    """Four digits; a dash where there is none."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def span(low: Any, high: Any) -> str:
    """Both ends of an interval; a dash where there is none."""
    return "–" if low is None else f"{number(low)} to {number(high)}"
