"""Which pairs of entries are distinguishable when only results of whole tasks are known.

Resampling a handful of groups of tasks calls too many equal pairs different: 16% with five groups,
12% with eight. Pairs of such a round are tested by exact sign flips of their differences in mean
win rate, group by group, and adjusted by Holm for the number of pairs of the round.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from analysis.statistics.sign_flip import holm, sign_flip_p

LEVEL = 0.05

Row = dict[str, Any]


def tested_pairs(marts: dict[str, list[Row]]) -> list[Row]:
    """The rows of `ranking_pairs`, those of task rounds with the test's verdict in `told_apart`.

    `p_adjusted` is None where items were resampled, and with fewer groups than the test needs.

    Args:
        marts: `rankings`, `ranking_tasks` and `ranking_pairs` of one ranking.
    """
    of_tasks = {row["round"] for row in marts["rankings"] if "tasks" in (row["resampled"] or "")}
    rates: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in marts["ranking_tasks"]:
        if row["mean_win_rate"] is not None:
            group = (row["round"], row["task_group"])
            rates[row["round"], row["entry"]][group] = row["mean_win_rate"]
            rates["overall", row["entry"]][group] = row["mean_win_rate"]
    found = [row | {"p_adjusted": None} for row in marts["ranking_pairs"]]
    for name in of_tasks:
        rows = [row for row in found if row["round"] == name]
        p = np.full(len(rows), np.nan)
        alike: dict[tuple[tuple[str, str], ...], dict[int, list[float]]] = defaultdict(dict)
        for place, row in enumerate(rows):
            one, other = (rates[name, row[key]] for key in ("entry", "other_entry"))
            shared = tuple(sorted(one.keys() & other.keys()))
            alike[shared][place] = [one[group] - other[group] for group in shared]
        for differences in alike.values():
            p[list(differences)] = sign_flip_p(np.array(list(differences.values())))
        for row, adjusted in zip(rows, holm(p).tolist(), strict=True):
            row["told_apart"] = adjusted < LEVEL
            row["p_adjusted"] = None if np.isnan(adjusted) else float(f"{adjusted:.12g}")
    return found
