"""A ranking as tables and notes, in a terminal and as a page."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from plugins.merging.competition.pairs import ALIKE, TOO_FEW, UNDECIDED
from plugins.merging.competition.ranking_table import column_name
from plugins.merging.competition.relative import ENOUGH_CLUSTERS
from plugins.merging.competition.sign_flip import least_groups
from plugins.merging.competition.standings import Row, Standings
from plugins.merging.problem import OVERALL
from warehouse.terminal import Column, listed, print_columns, print_notes, terminal_console

MOST_NOTES = 5
PAGE_WIDTH = 160
OWN_PAGE = b'<meta name="generator" content="tokenmart">'
"""In every page, so that it may be replaced."""

_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
{OWN_PAGE.decode()}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Leaderboard</title>
<style>:root{{{{color-scheme:light dark}}}}</style>
</head><body><pre>{{code}}</pre></body></html>
"""

CAUSES = {
    "no-result": "no result",
    "empty": "an empty value",
    "not-finite": "no finite value",
    "items-missing": "{items_missing} items without a value",
    "outdated": "no evaluation of the recipe in the problem file",
    "alone": "no other entry has a value to compare with",
}
"""Code of ranking_missing.sql → its words."""

DEFINITIONS = (
    "score: geometric mean of the mean win rates in the groups of tasks; overall, the weighted "
    "mean of the rounds' scores",
    "mean win rate: arithmetic mean of the same rates; rank by product: of their product",
    "score 95% CI: items resampled, or groups of tasks where results have no items (approximate)",
    "rank 95% CI: the ranks that the pair tests leave open; 1 to 1 is distinguishable from all",
    "pairs of results with items: an exact sign test over items, adjusted for the number of pairs "
    "(Holm), and the same order of the scores in at least 97.5% of the draws",
    "pairs of results without items: exact sign-flip test over groups of tasks, adjusted for the "
    "number of pairs (Holm)",
)

RELATIVE = (
    "positive is better; an interval is of paired draws of items, and not adjusted for the number "
    f"of entries and tasks; below {ENOUGH_CLUSTERS} items or clusters there is none",
    "?: undecided by these draws whether the interval excludes 0 (more: --draws)",
)


def print_standings(
    standings: Standings, explain: bool = False, console: Console | None = None
) -> None:
    """Print the overall ranking, or the first round where there is none.

    Args:
        standings: the ranking.
        explain: print every round with its notes, scores of tasks, costs, and definitions.
        console: print here; by default in the terminal.
    """
    console = console or terminal_console()
    rounds = standings.rounds
    if not explain:
        name = OVERALL if OVERALL in rounds else rounds[0]
        _print_round(console, standings, name)
        texts = notes(standings, name)
        left = [f"{len(texts) - MOST_NOTES} more notes"] if len(texts) > MOST_NOTES else []
        left += [f"rounds {listed([each for each in rounds if each != name])}"] * (len(rounds) > 1)
        print_notes(console, texts[:MOST_NOTES])
        more = ", ".join([*left, "scores of tasks, definitions"])
        print_notes(console, [f"More with --explain: {more}."], "dim")
        return
    for name in sorted(rounds, key=lambda name: name != OVERALL):
        _print_round(console, standings, name, wide=True)
        print_notes(console, notes(standings, name))
        _print_tasks(console, standings, name)
        console.print()
    _print_costs(console, standings)
    print_notes(console, DEFINITIONS, "dim")


def standings_page(standings: Standings) -> str:
    """All that `print_standings` explains, as an HTML page that needs no network."""
    console = Console(
        record=True, file=io.StringIO(), width=PAGE_WIDTH, markup=False, emoji=False, height=25
    )
    print_standings(standings, explain=True, console=console)
    return console.export_html(inline_styles=True, code_format=_PAGE)


def print_relative(standings: Standings) -> None:
    """Print each merged entry relative to its base and to the best of its experts."""
    console = terminal_console()
    rows = standings.marts["relative"]
    columns = [
        Column("round", [row["round"] for row in rows], text=True),
        Column("task", [column_name(row) for row in rows], text=True),
        Column("entry", [row["entry"] for row in rows], text=True),
        Column("items", [number(row["items"]) for row in rows]),
    ]
    for key, heading in (("over_base", "over\nbase"), ("over_best", "over best\nexpert")):
        intervals = [
            span(row[f"{key}_low"], row[f"{key}_high"]) + "?" * row[f"{key}_undecided"]
            for row in rows
        ]
        columns.append(Column(heading, [number(row[key]) for row in rows]))
        columns.append(Column("95% CI", intervals))
    columns.append(Column("best", [", ".join(row["best_experts"]) for row in rows], text=True))
    columns.append(Column("no score", [", ".join(row["missing"]) for row in rows], text=True))
    print_columns(console, columns, standings.name)
    print_notes(console, RELATIVE, "dim")


def notes(standings: Standings, round_name: str) -> list[str]:
    """What would change a reader's conclusion from a round, the most important first."""
    marts = standings.marts
    parts = {round_name}
    if round_name == OVERALL:
        parts |= {row["round"] for row in marts["ranking_missing"] + marts["mixed_scales"]}
    texts = [
        f"warning: {column_name(row)}, round {row['round']}: values of {listed(row['entries'])} "
        f"are {row['scale']}, others are not; write all on one scale"
        for row in marts["mixed_scales"]
        if row["round"] in parts
    ]
    texts += [
        f"over its limits: {row['entry']} ({row['stage']}): "
        f"{row['ended'] or ', '.join(row['over_limits'])}"
        for row in marts["merge_costs"]
        if not row["within_limits"]
    ]
    rows = _of(standings, "rankings", round_name)
    texts += [
        f"not ranked: {row['entry']}: no score in {listed(row['missing'] or [])}"
        for row in rows
        if row["score"] is None
    ]
    zero = [row["entry"] for row in rows if row["score"] == 0]
    if zero:
        texts.append(
            f"score 0 of {listed(zero)}: a mean win rate of 0 in one group of tasks makes the "
            "product 0, in every draw too, so it has no interval and orders nothing; compare mean "
            "win rates"
        )
    pairs = _of(standings, "ranking_pairs", round_name)
    if not pairs and sum(row["score"] is not None for row in rows) > 1:
        texts.append("pairs are not compared: there are more than 1,000 entries")
    if pairs and all(row["verdict"] == TOO_FEW for row in pairs):
        texts.append(
            f"pairs are not tested: it takes {least_groups(len(pairs))} items (6 in each task) or "
            f"{least_groups(len(pairs))} groups of tasks"
        )
    texts += [
        f"undecided by {row['draws']:,} draws: whether {row['entry']} and {row['other_entry']} are "
        "distinguishable (more: --draws)"
        for row in pairs
        if row["verdict"] == UNDECIDED
    ]
    texts += [
        f"{row['entry']}: {CAUSES[row['code']].format(**row)} in {column_name(row)}, round "
        f"{row['round']}"
        for row in marts["ranking_missing"]
        if row["round"] in parts
    ]
    if len(standings.rounds) > 1 and OVERALL not in standings.rounds:
        texts.append(
            "no overall ranking: it takes two rounds with a round_weight above 0, and an entry "
            "with a score in all of them"
        )
    return texts


def rivals(standings: Standings, round_name: str) -> dict[str, list[str]]:
    """Entry → names of the round's entries that are not distinguishable from it."""
    names_of: dict[str, list[str]] = {}
    for pair in _of(standings, "ranking_pairs", round_name):
        if pair["verdict"] in (ALIKE, UNDECIDED):
            names_of.setdefault(pair["entry"], []).append(pair["other_entry"])
            names_of.setdefault(pair["other_entry"], []).append(pair["entry"])
    return {entry: sorted(names) for entry, names in names_of.items()}


def _of(standings: Standings, mart: str, round_name: str) -> list[Row]:
    return [row for row in standings.marts[mart] if row["round"] == round_name]


def _print_round(console: Console, standings: Standings, name: str, wide: bool = False) -> None:
    rows, alike = _of(standings, "rankings", name), rivals(standings, name)
    shown = [
        number(None)
        if row["rank_low"] is None  # not tested, so nothing is known of its pairs
        else listed(alike.get(row["entry"], []), len(rows) if wide else 2)
        for row in rows
    ]
    columns = [
        Column("rank", [number(row["rank"]) for row in rows]),
        Column("entry", [row["entry"] for row in rows], text=True),
        Column("score", [number(row["score"]) for row in rows]),
        Column("95% CI", [_score_span(row) for row in rows]),
        Column("rank\n95% CI", [span(row["rank_low"], row["rank_high"]) for row in rows]),
        Column("mean\nwin rate", [number(row["mean_win_rate"]) for row in rows]),
        Column("rank by\nproduct", [number(row["product_rank"]) for row in rows], extra=True),
        Column("not distinguishable from", shown, text=True),
    ]
    print_columns(console, columns, f"{standings.name}, round {name}", wide)


def _print_tasks(console: Console, standings: Standings, name: str) -> None:
    """Scores of the entries in each task, and their mean win rates in each group of tasks."""
    scores = {
        (column_name(row), row["entry"]): row["score"]
        for row in _of(standings, "task_scores", name)
    }
    rates = {
        (row["task_group"], row["entry"]): row["mean_win_rate"]
        for row in _of(standings, "ranking_tasks", name)
    }
    entries = [row["entry"] for row in _of(standings, "rankings", name)]
    for title, cells in (("scores", scores), ("mean win rates", rates)):
        columns = [Column("entry", entries, text=True)]
        for heading in sorted({column for column, _ in cells}):
            columns.append(
                Column(heading, [number(cells.get((heading, entry))) for entry in entries])
            )
        if cells:
            print_columns(console, columns, f"{title}, round {name}", wide=True)


def _print_costs(console: Console, standings: Standings) -> None:
    """Costs of merges and evaluations, and the entries on the fronts of score against cost."""
    rows = standings.marts["merge_costs"]
    if not rows:
        return
    columns = [
        Column(name, [str(row[name] or "–") for row in rows], text=True)
        for name in ("entry", "stage", "round", "method", "size_class")
    ]
    columns.append(Column("seconds", [number(row["seconds"]) for row in rows]))
    columns += [
        Column(f"{name}\nGB", [gigabytes(row[f"{name}_bytes"]) for row in rows])
        for name in ("peak", "gpu", "disk", "checkpoint")
    ]
    columns.append(
        Column("within\nlimits", ["yes" if row["within_limits"] else "no" for row in rows])
    )
    print_columns(console, columns, "costs", wide=True)
    rows = [row for row in standings.marts["ranking_fronts"] if row["round"] in standings.rounds]
    columns = [
        Column("round", [row["round"] for row in rows], text=True),
        Column("entry", [row["entry"] for row in rows], text=True),
        Column("score", [number(row["score"]) for row in rows]),
        Column("seconds", [number(row["seconds"]) for row in rows]),
        Column("on front", ["yes" if row["on_time_front"] else "" for row in rows]),
        Column("peak GB", [gigabytes(row["peak_bytes"]) for row in rows]),
        Column("on front", ["yes" if row["on_space_front"] else "" for row in rows]),
    ]
    print_columns(console, columns, "score against cost", wide=True)


def number(value: Any) -> str:
    """A number with three digits; a dash if there is none."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def gigabytes(size: int | None) -> str:
    """A number of bytes in 10⁹; a dash if there is none."""
    return "–" if size is None else f"{size / 1e9:.2f}"


def _score_span(row: Row) -> str:
    """The interval of a score; that of a product which is 0 in every draw is no precision."""
    never_above_0 = row["score_high"] == 0
    return "–" if never_above_0 else span(row["score_low"], row["score_high"])


def span(low: Any, high: Any) -> str:
    """Both ends of an interval; a dash if there is none."""
    return "–" if low is None else f"{number(low)} to {number(high)}"
