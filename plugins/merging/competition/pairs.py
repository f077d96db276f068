"""Find the pairs of entries that are distinguishable.

If items are resampled, a pair is distinguishable if its order is the same in more than 97.5% of the
draws; this is not adjusted for the number of pairs. If only results of tasks are known, resampling
a few groups of tasks would report too many equal pairs as different (16% with five groups, 12% with
eight). These pairs are tested by exact sign flips of their differences in mean win rate per group,
adjusted for the number of pairs of the round (Holm).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from plugins.merging.competition.sign_flip import LEVEL, holm, least_groups, sign_flip_p

SAME_ORDER = 1 - LEVEL / 2
"""Share of the draws above which a pair is distinguishable."""

Row = dict[str, Any]


def tested_pairs(marts: dict[str, list[Row]]) -> list[Row]:
    """The rows of `ranking_pairs` with `distinguishable` and `p_adjusted`.

    `distinguishable` is None if no test was possible: items without draws, or results without items
    in fewer groups than a pair takes to be distinguishable, by `least_groups`. `p_adjusted` is None
    in these cases, too, and if items were resampled.

    Args:
        marts: `rankings`, `ranking_tasks` and `ranking_pairs` of one ranking.
    """
    of_tasks = {row["round"] for row in marts["rankings"] if "tasks" in (row["resampled"] or "")}
    weighted = {row["round"] for row in marts["rankings"] if row["round_weight"]}
    rates: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in marts["ranking_tasks"]:
        if row["mean_win_rate"] is not None:
            group = (row["round"], row["task_group"])
            rates[row["round"], row["entry"]][group] = row["mean_win_rate"]
            if row["round"] in weighted:
                rates["overall", row["entry"]][group] = row["mean_win_rate"]
    found = [
        row | {"distinguishable": _same_order(row["above_share"]), "p_adjusted": None}
        for row in marts["ranking_pairs"]
    ]
    for name in of_tasks:
        rows = [row for row in found if row["round"] == name]
        p = np.full(len(rows), np.nan)
        alike: dict[tuple[tuple[str, str], ...], dict[int, list[float]]] = defaultdict(dict)
        for place, row in enumerate(rows):
            one, other = (rates[name, row[key]] for key in ("entry", "other_entry"))
            shared = tuple(sorted(one.keys() & other.keys()))
            alike[shared][place] = [one[group] - other[group] for group in shared]
        least = least_groups(len(rows))
        for shared, differences in alike.items():
            if len(shared) >= least:
                p[list(differences)] = sign_flip_p(np.array(list(differences.values())))
        for row, adjusted in zip(rows, holm(p).tolist(), strict=True):
            row["distinguishable"] = None if np.isnan(adjusted) else adjusted < LEVEL
            row["p_adjusted"] = None if np.isnan(adjusted) else float(f"{adjusted:.12g}")
    return found


def _same_order(above: float | None) -> bool | None:
    return None if above is None else max(above, 1 - above) > SAME_ORDER
