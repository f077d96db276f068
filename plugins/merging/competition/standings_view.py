"""A ranking in words: the verdict, the table, and notes that change how a reader takes it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from plugins.merging.competition.pairs import (
    ALIKE,
    DISTINGUISHABLE,
    ENOUGH_CLUSTERS,
    NO_DRAWS,
    TOO_FEW,
)
from plugins.merging.competition.ranking_table import SCORE
from plugins.merging.competition.scales import FRACTIONS, PERCENT
from plugins.merging.competition.sign_flip import least_groups
from plugins.merging.competition.standings import Row, Standings
from plugins.merging.problem import OVERALL
from warehouse.terminal import Column, counted, listed, print_columns, print_notes, terminal_console

if TYPE_CHECKING:
    from rich.console import Console

MOST_ROWS, MOST_NOTES, LONGEST_NAME = 10, 3, 22
LEAST_UNITS = 6
"""Items of each task, or groups of tasks, from which there are intervals; int_ranking_units.sql."""

CAUSES = {
    "no-result": "no result",
    "empty": "an empty value",
    "not-finite": "no finite value",
    "items-missing": "{items_missing} items without a value",
    "alone": "no other entry has a value to compare with",
}
"""Code of ranking_missing.sql → its words."""

LIMITS = {
    "seconds": "seconds",
    "peak_bytes": "memory",
    "gpu_bytes": "GPU memory",
    "disk_bytes": "disk space",
}

DEFINITIONS = (
    "score: geometric mean of the mean win rates in the groups of tasks; overall, the weighted "
    "mean of the rounds' scores",
    "mean win rate: arithmetic mean of the same rates; product: their product, the formula that "
    "competitions publish",
    "score 95% CI: items resampled, or groups of tasks where results have no items (approximate)",
    "rank 95% CI: the ranks that the pair tests leave open; 1 to 1 is distinguishable from all",
    "pairs of results with items: the same order in at least 97.5% of the draws and, below "
    f"{ENOUGH_CLUSTERS} items in a task, an exact sign test over items; not adjusted for the "
    "number of pairs",
    "pairs of results without items: exact sign-flip test over groups of tasks, adjusted for the "
    "number of pairs (Holm)",
)

RELATIVE = (
    "positive is better; an interval is of paired draws of items, and not adjusted for the number "
    f"of entries and tasks; below {ENOUGH_CLUSTERS} items or clusters there is none",
)


def rows_of(standings: Standings, round_name: str) -> list[Row]:
    """Rows of `rankings` of a round, best first."""
    return [row for row in standings.marts["rankings"] if row["round"] == round_name]


def pairs_of(standings: Standings, round_name: str) -> list[Row]:
    """Rows of `ranking_pairs` of a round."""
    return [row for row in standings.marts["ranking_pairs"] if row["round"] == round_name]


def rivals(standings: Standings, round_name: str) -> dict[str, list[str]]:
    """Entry → names of the round's entries that are not distinguishable from it."""
    found: dict[str, list[str]] = {}
    for pair in pairs_of(standings, round_name):
        if pair["verdict"] == ALIKE:
            found.setdefault(pair["entry"], []).append(pair["other_entry"])
            found.setdefault(pair["other_entry"], []).append(pair["entry"])
    return {entry: sorted(names) for entry, names in found.items()}


def leaders(standings: Standings, round_name: str) -> tuple[list[str], list[str]]:
    """The entries of rank 1, and the others that are not distinguishable from one of them."""
    first = [row["entry"] for row in rows_of(standings, round_name) if row["rank"] == 1]
    found = rivals(standings, round_name)
    others = {name for entry in first for name in found.get(entry, [])}
    return first, sorted(others.difference(first))


def untested(standings: Standings, round_name: str) -> str:
    """A clause on why none of the round's pairs could be tested; empty if one was, or without."""
    pairs = pairs_of(standings, round_name)
    codes = {pair["verdict"] for pair in pairs}
    if codes == {NO_DRAWS}:
        return "there are no bootstrap draws"
    if codes != {TOO_FEW}:
        return ""
    groups = rows_of(standings, round_name)[0]["task_groups"]
    return (
        f"too few results (at least {LEAST_UNITS} items in each task or, for "
        f"{counted(len(pairs), 'pair')}, {least_groups(len(pairs))} groups of tasks; here {groups})"
    )


def verdict(standings: Standings, round_name: str) -> str:
    """A sentence on the highest score of a round, and on the entries that may be as good."""
    rows = [row for row in rows_of(standings, round_name) if row["rank"] is not None]
    if not rows:
        return "No entry has a score."
    first, others = leaders(standings, round_name)
    has, it, be, its = ("have", "At least one of them", "They are", "their")
    if len(first) == 1:
        has, it, be, its = ("has", "It", "It is", "its")
    sentence = f"{listed(first)} {has} the highest score, {number(rows[0]['score'])}"
    share = rows[0]["first_share"]
    if share is not None and len(first) == 1:
        sentence += f" (none above it in {share:.0%} of {rows[0]['draws']} draws)"
    if len(rows) == len(first):
        return f"{sentence}. No other entry is ranked."
    if reason := untested(standings, round_name):
        return f"{sentence}. Pairs were not tested: {reason}."
    if others:
        names = listed(others, 1 if len(others) > 3 else 3)
        return f"{sentence}. {it} is not distinguishable from {names}."
    tested = {
        pair["verdict"]
        for pair in pairs_of(standings, round_name)
        if (pair["entry"] in first) != (pair["other_entry"] in first)
    }
    if tested == {DISTINGUISHABLE}:
        return f"{sentence}. {be} distinguishable from every other entry."
    return f"{sentence}. Some of {its} pairs have too few results to be tested."


def notes(standings: Standings, round_name: str) -> list[str]:
    """What would change a reader's conclusion from a round, the most important first."""
    rows = rows_of(standings, round_name)
    parts = {round_name}
    if round_name == OVERALL:
        parts = {row["round"] for row in standings.marts["mixed_scales"]}
        parts |= {row["round"] for row in standings.marts["ranking_missing"]}
    checks = {
        mart: [row for row in standings.marts[mart] if row["round"] in parts]
        for mart in ("mixed_scales", "ranking_missing")
    }
    ranked = {row["entry"] for row in rows if row["score"] is not None}
    missing = [row for row in checks["ranking_missing"] if row["entry"] in ranked]
    found = scale_notes(checks["mixed_scales"])
    found += over_limits(standings.marts["merge_costs"])
    found += [
        f"not ranked: {row['entry']}: {reason(row, standings)}"
        for row in rows
        if row["score"] is None
    ]
    found += missing_notes(missing)
    if len(standings.rounds) > 1 and OVERALL not in standings.rounds:
        found.append(
            "no overall ranking: it takes two rounds with a round_weight above 0, and an entry "
            "with a score in all of them"
        )
    return found


def reason(row: Row, standings: Standings) -> str:
    """Why an entry has no score: the rounds, or the groups of tasks and their causes."""
    if row["round"] == OVERALL:
        return f"no score in {listed(row['missing'] or [])}"
    causes: dict[str, str] = {}
    for each in standings.marts["ranking_missing"]:
        if (each["round"], each["entry"]) == (row["round"], row["entry"]):
            causes.setdefault(each["task_group"], cause(each))
    groups = [f"{name} ({causes.get(name, 'no result')})" for name in row["missing"] or []]
    return f"no win rate in {listed(groups)}"


def cause(row: Row) -> str:
    """The words of a row of `ranking_missing`."""
    return CAUSES[row["code"]].format(**row)


def scale_notes(rows: list[Row]) -> list[str]:
    """A sentence on the columns that mix fractions and percent, for each set of entries."""
    alike: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        alike.setdefault((listed(row["entries"]), row["scale"]), []).append(row)
    return [
        f"warning: {_columns(found)}: values of {names} are {scale}, others "
        f"{FRACTIONS if scale == PERCENT else PERCENT}; write all on one scale"
        for (names, scale), found in alike.items()
    ]


def missing_notes(rows: list[Row]) -> list[str]:
    """A sentence on the results that a ranked entry lacks, for each entry, round and cause."""
    alike: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        alike.setdefault((row["entry"], row["round"], cause(row)), []).append(row)
    return [
        f"{entry}: {sentence} in {_columns(found)}; ranked without it"
        for (entry, _, sentence), found in alike.items()
    ]


def _columns(rows: list[Row]) -> str:
    """Tasks, metrics and rounds of rows: `qa, nli (f1) and 2 more, round open`."""
    rounds: dict[str, list[str]] = {}
    for row in rows:
        rounds.setdefault(row["round"], []).append(_column(row))
    return "; ".join(f"{listed(names)}, round {name}" for name, names in rounds.items())


def _column(row: Row) -> str:
    return row["task"] if row["metric"] == SCORE else f"{row['task']} ({row['metric']})"


def over_limits(costs: list[Row]) -> list[str]:
    """A sentence on each merge and evaluation that broke its limits."""
    return [
        f"over its limits: {row['entry']} ({row['stage']}): {limits_broken(row)}"
        for row in costs
        if row["within_limits"] is False
    ]


def limits_broken(row: Row) -> str:
    """The limits that a row of `merge_costs` exceeds, or why its run was ended."""
    return row["ended"] or ", ".join(LIMITS[name] for name in row["over_limits"])


def stability(pair: Row) -> str:
    """A sentence on the rank correlation of two rounds."""
    if pair["spearman"] is None:
        return (
            f"{pair['round']} and {pair['other_round']}: no correlation of ranks "
            f"({pair['entries']} entries)"
        )
    interval = span(pair["spearman_low"], pair["spearman_high"])
    return (
        f"{pair['round']} and {pair['other_round']}: Spearman {number(pair['spearman'])} over "
        f"{pair['entries']} entries (resampled: {interval})"
    )


def print_standings(standings: Standings, explain: bool = False) -> None:
    """Print the overall ranking, or the first round where there is none.

    Args:
        standings: the ranking.
        explain: print every round with all columns and notes, and the definitions.
    """
    console = terminal_console()
    if not explain:
        name = OVERALL if OVERALL in standings.rounds else standings.rounds[0]
        print_notes(console, [verdict(standings, name)])
        rows = rows_of(standings, name)
        _print_table(console, standings, name, rows[:MOST_ROWS], every_column=False)
        found = notes(standings, name)
        print_notes(console, found[:MOST_NOTES])
        others = [each for each in standings.rounds if each != name]
        left = [f"{len(rows) - MOST_ROWS} more entries"] if len(rows) > MOST_ROWS else []
        left += [f"{len(found) - MOST_NOTES} more notes"] if len(found) > MOST_NOTES else []
        left += [f"rounds {listed(others)} (--round)"] if others else []
        left.append("definitions")
        print_notes(console, [f"More with --explain: {', '.join(left)}."], "dim")
        return
    for name in standings.rounds:
        print_notes(console, [verdict(standings, name)])
        _print_table(console, standings, name, rows_of(standings, name), every_column=True)
        print_notes(console, notes(standings, name))
        console.print()
    print_notes(console, map(stability, standings.marts["ranking_stability"]))
    print_notes(console, DEFINITIONS, "dim")


def print_relative(standings: Standings) -> None:
    """Print each merged entry relative to its base and to the best of its experts."""
    console = terminal_console()
    rows = standings.marts["relative"]
    if not rows:
        print_notes(console, ["No merged entry has a score of a task in this ranking or round."])
        return
    columns = [
        Column("round", [row["round"] for row in rows], text=True),
        Column("task", [_column(row) for row in rows], text=True),
        Column("entry", [row["entry"] for row in rows], text=True),
        Column("items", [number(row["items"]) for row in rows]),
    ]
    for key, heading in (("over_base", "over\nbase"), ("over_best", "over best\nexpert")):
        intervals = [span(row[f"{key}_low"], row[f"{key}_high"]) for row in rows]
        columns.append(Column(heading, [number(row[key]) for row in rows]))
        columns.append(Column("95% CI", intervals))
    columns.append(Column("best", [", ".join(row["best_experts"]) for row in rows], text=True))
    if any(row["missing"] for row in rows):
        columns.append(Column("no score", [", ".join(row["missing"]) for row in rows], text=True))
    print_columns(console, columns, standings.name)
    print_notes(console, RELATIVE, "dim")


def _print_table(
    console: Console, standings: Standings, name: str, rows: list[Row], every_column: bool
) -> None:
    found = rivals(standings, name)
    shown = [alike(row, found, brief=not every_column) for row in rows]
    names = [row["entry"] for row in rows]
    if not every_column:
        names = _short(names)
    columns = [
        Column("rank", [number(row["rank"]) for row in rows]),
        Column("entry", names, text=True),
        Column("score", [number(row["score"]) for row in rows]),
        Column("95% CI", [span(row["score_low"], row["score_high"]) for row in rows]),
        Column("rank\n95% CI", [span(row["rank_low"], row["rank_high"]) for row in rows]),
        Column("mean\nwin rate", [number(row["mean_win_rate"]) for row in rows]),
        Column("not distinguish-\nable from", shown, text=True),
    ]
    if every_column:
        columns[5:5] = [
            Column("geometric", [number(row["geometric_mean"]) for row in rows]),
            Column("product", [number(row["product"]) for row in rows]),
        ]
    print_columns(console, columns, f"{standings.name}, round {name}", wide=every_column)


def alike(row: Row, found: dict[str, list[str]], brief: bool = False) -> str:
    """The entries that a ranked one is not distinguishable from; their number if `brief`."""
    if row["rank_low"] is None:
        return "not ranked" if row["rank"] is None else "not tested"
    names = found.get(row["entry"], [])
    if brief and sum(map(len, names)) >= LONGEST_NAME - 8:
        return counted(len(names), "other")
    return ", ".join(names)


def _short(names: list[str]) -> list[str]:
    """Names of at most one line each: what all begin or end with is left out where one is long."""
    if max(map(len, names)) <= LONGEST_NAME:
        return names
    start = max(0, _common(names) - 4)
    end = max(0, _common([name[::-1] for name in names]) - 4)
    cores = [name[start : max(start + 1, len(name) - end)] for name in names]
    return [core if len(core) <= LONGEST_NAME else f"{core[:9]}…{core[-12:]}" for core in cores]


def _common(names: list[str]) -> int:
    """Number of letters that all names begin with."""
    first, last = min(names), max(names)
    alike = (one == other for one, other in zip(first, last, strict=False))
    return sum(1 for _ in takewhile(bool, alike))


def number(value: Any) -> str:
    """A number with three digits; a dash if there is none."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def span(low: Any, high: Any) -> str:
    """Both ends of an interval; a dash if there is none."""
    return "–" if low is None else f"{number(low)} to {number(high)}"
