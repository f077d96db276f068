"""Print a ranking as a table, with notes on its interpretation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugins.merging.competition.ranking_table import OVERALL, SCORE, same_names
from plugins.merging.competition.scales import FRACTIONS, PERCENT
from plugins.merging.competition.sign_flip import least_groups
from plugins.merging.competition.standings import CHECKS, OPEN, Row, Standings
from warehouse.terminal import (
    Column,
    counted,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)

if TYPE_CHECKING:
    from rich.console import Console

MOST_NAMES = 6
MOST_MISSING = 5
"""Missing results of a round that are listed; further ones are counted."""
UNTESTED = "not tested"
ALONE = "no other entry has a value to compare with"
"""The cause in ranking_missing.sql of a value that doesn't count."""
LEAST_GROUPS = 5
"""As in int_ranking_draws.sql."""


def rivals(standings: Standings, round_name: str) -> dict[str, list[str]]:
    """Entry → names of the round's entries that are not distinguishable from it."""
    found: dict[str, list[str]] = {}
    for pair in standings.marts["ranking_pairs"]:
        if pair["round"] == round_name and pair["distinguishable"] is False:
            found.setdefault(pair["entry"], []).append(pair["other_entry"])
            found.setdefault(pair["other_entry"], []).append(pair["entry"])
    return {entry: sorted(names) for entry, names in found.items()}


def untested(standings: Standings, round_name: str) -> str:
    """A clause on why the round's pairs could not be tested; empty if they were, or if it has none.

    With results of single items, there were no draws of them; without, too few groups of tasks.
    """
    pairs = [pair for pair in standings.marts["ranking_pairs"] if pair["round"] == round_name]
    if not pairs or any(pair["distinguishable"] is not None for pair in pairs):
        return ""
    rows = [row for row in standings.marts["rankings"] if row["round"] == round_name]
    if "tasks" not in (rows[0]["resampled"] or ""):
        return "there are no bootstrap draws of items"
    return (
        f"to distinguish one of {counted(len(pairs), 'pair')} without items takes at least "
        f"{least_groups(len(pairs))} groups of tasks, here are {rows[0]['task_groups']}"
    )


def print_standings(standings: Standings, wide: bool = False) -> None:
    """Print a table for each round, and notes on how to read it.

    Args:
        standings: the ranking.
        wide: show all columns, however narrow the terminal is.
    """
    console = terminal_console()
    for name in standings.rounds:
        _print_round(console, standings, name, wide)
    print_notes(console, no_overall(standings), "dim")
    if pairs := standings.marts["ranking_stability"]:
        print_notes(console, map(stability, pairs))
        console.print()
    for name, rows in standings.drops.items():
        _print_drops(console, name, rows, drop_note(standings, name))
    print_notes(console, over_limits(standings.marts["merge_costs"]))


def no_overall(standings: Standings) -> list[str]:
    """A sentence on why several rounds have no overall ranking; none if they have one."""
    if len(standings.rounds) < 2 or OVERALL in standings.rounds:
        return []
    alike = "".join(f"; {question}" for question in same_names("round", standings.rounds))
    return [
        "no overall ranking: it needs at least two rounds with a weight above 0 (round_weight), "
        f"and an entry with a score in all of them{alike}"
    ]


def over_limits(costs: list[Row]) -> list[str]:
    """A sentence on each merge and evaluation that broke its limits."""
    return [
        f"over its limits: {row['entry']} ({row['stage']}): {row['reason']}"
        for row in costs
        if row["within_limits"] is False
    ]


def _print_drops(console: Console, name: str, rows: list[Row], said: str) -> None:
    columns = [
        Column("entry", [row["entry"] for row in rows], text=True),
        Column(OPEN, [number(row["score"]) for row in rows]),
        Column(name, [number(row["other_score"]) for row in rows]),
        Column("drop", [number(row["drop"]) for row in rows]),
        Column("95% CI", [span(row["drop_low"], row["drop_high"]) for row in rows]),
    ]
    print_columns(console, columns, f"From {OPEN} to {name}")
    print_notes(console, [said], "dim")


def drop_note(standings: Standings, name: str) -> str:
    """A note on the drop of the best of many entries, and on entries without a score in both."""
    rows = standings.drops[name]
    rankings = standings.marts["rankings"]
    found = {row["entry"] for row in rankings if row["round"] in (OPEN, name)}
    left = sorted(found - {row["entry"] for row in rows})
    without = f"; without a score in both rounds: {_named(left)}" if left else ""
    opened = [row for row in rankings if row["round"] == OPEN]
    unranked = [row["entry"] for row in opened if row["score"] is None]
    of_all = f" of {len(opened)}" if unranked else ""
    not_ranked = f" (not ranked: {_named(unranked)})" if unranked else ""
    return (
        f"{rows[0]['entries']}{of_all} entries were compared in the open round{not_ranked}; the "
        "score of the best of many is high partly by chance, so it drops in another round "
        "(regression to the mean); the score of an entry that was tuned on the open round drops "
        f"further; a negative drop is a rise{without}"
    )


def _print_round(console: Console, standings: Standings, name: str, wide: bool) -> None:
    rows = [row for row in standings.marts["rankings"] if row["round"] == name]
    alike = rivals(standings, name)
    reason = untested(standings, name)
    rivals_shown = [
        UNTESTED if reason and row["rank"] is not None else _named(alike.get(row["entry"], []))
        for row in rows
    ]
    columns = [
        Column("rank", [number(row["rank"]) for row in rows]),
        Column("entry", [row["entry"] for row in rows], text=True),
        Column("score", [number(row["score"]) for row in rows]),
        Column("95% CI", [span(row["score_low"], row["score_high"]) for row in rows]),
        Column("rank\n95% CI", [span(row["rank_low"], row["rank_high"]) for row in rows]),
        Column("geometric", [number(row["geometric_mean"]) for row in rows], extra=True),
        Column("product", [number(row["product"]) for row in rows], extra=True),
        Column("not distinguishable from", rivals_shown, text=True),
    ]
    left_out = print_columns(console, columns, f"{standings.name}, round {name}", wide)
    print_notes(console, [f"not ranked: {r['entry']}: {r['reason']}" for r in rows if r["reason"]])
    print_notes(console, round_notes(standings, name))
    print_notes(console, [note(standings, name, reason), *left_out_notes(left_out)], "dim")
    console.print()


def round_notes(standings: Standings, name: str) -> list[str]:
    """`result_notes` of a round; with `overall`, of its rounds that aren't shown themselves."""
    shown = set(standings.rounds)
    return result_notes(
        {
            check: [
                row
                for row in standings.marts[check]
                if row["round"] == name or (name == OVERALL and row["round"] not in shown)
            ]
            for check in CHECKS
        }
    )


def result_notes(checks: dict[str, list[Row]]) -> list[str]:
    """Sentences on missing results and on values on another scale; `checks` has the `CHECKS`."""
    return [*_scale_notes(checks["mixed_scales"]), *_missing_notes(checks["ranking_missing"])]


def _scale_notes(rows: list[Row]) -> list[str]:
    """Sentences on columns that mix fractions and percent."""
    found = []
    for row in rows[:MOST_MISSING]:
        other = FRACTIONS if row["scale"] == PERCENT else PERCENT
        found.append(
            f"warning: {_column(row)}, round {row['round']}: the values of "
            f"{_named(row['entries'])} are {row['scale']}, those of other entries {other}; they "
            "are ranked as they are: write all values on one scale"
        )
    if len(rows) > MOST_MISSING:
        found.append(
            f"warning: {len(rows) - MOST_MISSING} more columns with fractions and percent; "
            "`tokenmart rank show --json` lists all"
        )
    return found


def _missing_notes(rows: list[Row]) -> list[str]:
    """Sentences on results that ranked entries lack or that have nothing to be compared with."""
    found = [
        f"{row['entry']}: {row['cause']} in {_column(row)}, round {row['round']}; ranked without "
        f"it{'' if row['cause'] == ALONE else ', which may raise its score'}"
        for row in rows[:MOST_MISSING]
    ]
    if len(rows) > MOST_MISSING:
        found.append(
            f"{len(rows) - MOST_MISSING} more missing results, ranked without them; "
            "`tokenmart rank show --json` lists all"
        )
    return found


def _column(row: Row) -> str:
    return row["task"] if row["metric"] == SCORE else f"{row['task']} ({row['metric']})"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def note(standings: Standings, name: str, reason: str = "") -> str:
    """A note on the resampling behind a round's intervals, the test of pairs, and their limits.

    Args:
        standings: the ranking.
        name: the round.
        reason: why its pairs were not tested; empty if they were.
    """
    rows = [row for row in standings.marts["rankings"] if row["round"] == name]
    first = rows[0]
    draws = max(row["draws"] for row in rows)
    of_tasks = "tasks" in (first["resampled"] or "")
    if not draws:
        intervals = f"no intervals were computed{_no_draws(standings, name)}"
    else:
        intervals = f"95% CI: {first['resampled']} resampled {draws} times" + (
            ", approximate with few groups" if of_tasks else ""
        )
    if reason:
        return f"{intervals}; pairs were not tested: {reason}"
    if of_tasks:
        intervals += (
            "; pairs: exact sign-flip test over groups of tasks, adjusted for the number of pairs "
            "(Holm)"
        )
    elif draws:
        intervals += "; the pairs are not adjusted for their number"
    return intervals + _disagreement(standings, name)


def _disagreement(standings: Standings, name: str) -> str:
    """A clause on pairs whose rank intervals and test differ; empty if there are none."""
    ranks = {
        row["entry"]: (row["rank_low"], row["rank_high"])
        for row in standings.marts["rankings"]
        if row["round"] == name and row["rank_low"] is not None
    }
    apart, overlapping = [], []
    for pair in standings.marts["ranking_pairs"]:
        entries = pair["entry"], pair["other_entry"]
        if pair["round"] != name or not ranks.keys() >= set(entries):
            continue
        (low, high), (other_low, other_high) = (ranks[entry] for entry in entries)
        overlap = low <= other_high and other_low <= high
        if pair["distinguishable"] is False and not overlap:
            apart.append(" and ".join(entries))
        elif pair["distinguishable"] and overlap:
            overlapping.append(" and ".join(entries))
    found = [
        _first_pair(pairs) + what
        for pairs, what in (
            (apart, "no common rank in their intervals, but are not distinguishable"),
            (overlapping, "overlapping rank intervals, but are distinguishable"),
        )
        if pairs
    ]
    return f"; an interval is of one entry alone: {'; '.join(found)}" if found else ""


def _first_pair(pairs: list[str]) -> str:
    more = f" (and {counted(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
    return f"{pairs[0]}{more} have "


def _no_draws(standings: Standings, name: str) -> str:
    """The cause: few groups of tasks, overall those of each round; empty if rounds aren't shown."""
    rows = [
        row
        for row in standings.marts["rankings"]
        if (row["round_weight"] if name == OVERALL else row["round"] == name)
    ]
    few = {
        row["round"]: row["task_groups"]
        for row in rows
        if "tasks" in row["resampled"] and row["task_groups"] < LEAST_GROUPS
    }
    if not few:
        return ": there were no bootstrap draws" if rows else ""
    needed = f": results without items need at least {LEAST_GROUPS} groups of tasks for them"
    if name != OVERALL:
        return needed
    here = ", ".join(f"{round_name} has {groups}" for round_name, groups in few.items())
    return f"{needed} in each round with a weight, {here}"


def first_of(rows: list[Row]) -> str:
    """A sentence on the highest score of a round, and on how often it is first in the draws.

    Args:
        rows: rows of `rankings` of the round, best first.
    """
    first = rows[0]
    equal = [row["entry"] for row in rows if row["rank"] == 1]
    if len(equal) > 1:
        names = f"{', '.join(equal[:-1])} and {equal[-1]}"
        return f"{names} have the same score, {number(first['score'])}, the highest."
    share = first["first_share"]
    drawn = "" if share is None else f"; none is above it in {share:.0%} of the bootstrap draws"
    return f"{first['entry']} has the highest score, {number(first['score'])}{drawn}."


def stability(pair: Row) -> str:
    """A sentence on the rank correlation of two rounds."""
    return (
        f"{pair['round']} and {pair['other_round']}: Spearman {number(pair['spearman'])} over "
        f"{pair['entries']} entries (resampled: "
        f"{span(pair['spearman_low'], pair['spearman_high'])})"
    )


def number(value: Any) -> str:
    """A number with four digits; a dash if there is none."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def span(low: Any, high: Any) -> str:
    """Both ends of an interval; a dash if there is none."""
    return "–" if low is None else f"{number(low)} to {number(high)}"
