"""Find the pairs of entries that are distinguishable, and the ranks that they leave open.

With results of items, a pair is tested by an exact sign test over clusters of items: in how many is
the one better, in how many the other? It must have the order of the scores, and these must have the
same order in at least 97.5% of the draws; where that depends on the draws, it is undecided. With
results of tasks only, resampling a few groups would report too many equal pairs as different (16%
with five groups): these pairs are tested by exact sign flips of their differences in mean win rate
per group. Both p-values are adjusted for the number of pairs in the round (Holm), so that the
chance of any false distinguishable pair is at most 5%.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.statistics.monte_carlo import undecided
from plugins.merging.competition.sign_flip import (
    LEVEL,
    holm,
    least_groups,
    sign_flip_p,
    sign_test_p,
)

MOST_OTHER_ORDER = LEVEL / 2
"""Share of the draws up to which a pair is distinguishable."""

DISTINGUISHABLE, ALIKE = "distinguishable", "not-distinguishable"
TOO_FEW, UNDECIDED = "too-few", "undecided"

Row = dict[str, Any]


def tested_pairs(marts: dict[str, list[Row]]) -> list[Row]:
    """The rows of `ranking_pairs` with `verdict` and `p`.

    `verdict` is distinguishable, not-distinguishable, undecided (by so many draws), or too-few
    (items, groups of tasks, or draws). `p` is that of the exact test, adjusted; None where there is
    none.

    Args:
        marts: `rankings`, `ranking_tasks` and `ranking_pairs` of one ranking.
    """
    pairs = []
    for name, first in {row["round"]: row for row in marts["rankings"]}.items():
        rows = [row for row in marts["ranking_pairs"] if row["round"] == name]
        pairs += _of_items(rows) if first["resampled"] == "items" else _of_groups(rows, marts)
    return pairs


def _of_items(rows: list[Row]) -> list[Row]:
    """Pairs of one round, by clusters of items won and lost."""
    enough = np.array([_is_testable(row, len(rows)) for row in rows], dtype=bool)
    wins, losses = (np.array([row[name] or 0 for row in rows]) for name in ("wins", "losses"))
    p = holm(np.where(enough, sign_test_p(wins, losses), np.nan))
    return [_judged(row, each, _by_draws) for row, each in zip(rows, p, strict=True)]


def _is_testable(row: Row, pairs: int) -> bool:
    return row["above_share"] is not None and row["clusters"] >= least_groups(pairs)


def _by_draws(row: Row) -> str:
    """The verdict on a pair with a low p: do draws and scores have the order of its clusters?"""
    won = row["wins"] > row["losses"]
    if won != (row["measured_above"] > 0.5):
        return ALIKE
    other_order = 1 - row["above_share"] if won else row["above_share"]
    if undecided(other_order * row["draws"], row["draws"], MOST_OTHER_ORDER):
        return UNDECIDED
    return DISTINGUISHABLE if other_order < MOST_OTHER_ORDER else ALIKE


def _judged(row: Row, p: float, of_low_p: Callable[[Row], str]) -> Row:
    if np.isnan(p):
        return row | {"verdict": TOO_FEW, "p": None}
    verdict = of_low_p(row) if p < LEVEL else ALIKE
    return row | {"verdict": verdict, "p": float(f"{p:.12g}")}


def _of_groups(rows: list[Row], marts: dict[str, list[Row]]) -> list[Row]:
    """Pairs of one round, whose differences are those of their common groups."""
    rounds = {row["round"] for row in rows}
    if "overall" in rounds:
        rounds |= {row["round"] for row in marts["rankings"] if row["round_weight"]}
    rates: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in marts["ranking_tasks"]:
        if row["round"] in rounds and row["mean_win_rate"] is not None:
            rates[row["entry"]][row["round"], row["task_group"]] = row["mean_win_rate"]
    p = np.full(len(rows), np.nan)
    alike: dict[tuple[tuple[str, str], ...], dict[int, list[float]]] = defaultdict(dict)
    for place, row in enumerate(rows):
        one, other = rates[row["entry"]], rates[row["other_entry"]]
        shared = tuple(sorted(one.keys() & other.keys()))
        alike[shared][place] = [one[group] - other[group] for group in shared]
    for shared, differences in alike.items():
        if len(shared) >= least_groups(len(rows)):
            p[list(differences)] = sign_flip_p(np.array(list(differences.values())))
    return [
        _judged(row, adjusted, lambda _: DISTINGUISHABLE)
        for row, adjusted in zip(rows, holm(p), strict=True)
    ]


def with_ranks(rankings: list[Row], pairs: list[Row]) -> list[Row]:
    """The rows of `rankings` with `rank_low` and `rank_high`, the ranks that the pairs leave open.

    An entry's best rank is behind the entries that are distinguishable from it and above it, its
    worst rank is before those below it. So an entry has the rank 1 to 1 only if it is
    distinguishable from every other. Both are None where no pair was tested.
    """
    above: dict[tuple[str, str], int] = defaultdict(int)
    below: dict[tuple[str, str], int] = defaultdict(int)
    tested = set()
    for row in pairs:
        if row["verdict"] != TOO_FEW:
            tested.add(row["round"])
        if row["verdict"] == DISTINGUISHABLE:
            names = [row["entry"], row["other_entry"]]
            better, worse = names if row["measured_above"] > 0.5 else names[::-1]
            above[row["round"], worse] += 1
            below[row["round"], better] += 1
    ranked: dict[str, int] = defaultdict(int)
    for row in rankings:
        ranked[row["round"]] += row["rank"] is not None
    with_limits = []
    for row in rankings:
        key = row["round"], row["entry"]
        low = high = None
        if row["rank"] is not None and row["round"] in tested:
            # the test over groups may contradict the order of two geometric means
            low = min(1 + above[key], row["rank"])
            high = max(ranked[row["round"]] - below[key], row["rank"])
        with_limits.append(row | {"rank_low": low, "rank_high": high})
    return with_limits
