"""Merged entries relative to their base and to the best of their experts, per task.

What was gained is the score minus that of the base; what was forgotten, the score minus that of the
best expert. Both are turned round where lower is better: positive is always better.

Draws pick the same items for all entries, so the differences are paired. The difference to the best
expert is the least of the K differences to single experts, and which expert is best isn't known.
The bootstrap of a least value is biased where experts are alike; so the interval is made of those
of the single differences: from the least 2.5% quantile to the least quantile of 1 − 2.5% / K. The
lower end is valid because one of the experts is the best, the upper end by Bonferroni. Whether an
interval excludes 0 is undecided where that depends on the draws (`monte_carlo`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from analysis.statistics.correlations import Floats
from analysis.statistics.monte_carlo import undecided
from plugins.merging.competition.sign_flip import LEVEL
from plugins.merging.problem import Merge, MergeProblem
from warehouse.errors import TokenmartError

BASE_IS_AN_INPUT = frozenset({"arcee_fusion", "nearswap", "slerp"})
"""mergekit's methods that mix `base_model` with one other model."""

ENOUGH_CLUSTERS = 30
"""Clusters of items from which a percentile interval is given."""

SAME_SCORE = 1e-11
"""Scores have 12 digits after the point."""

Row = dict[str, Any]
Interval = tuple[float | None, float | None]

_SCORES = """
with scores as (
    select
        round, task, metric, entry,
        any_value(items) as items,
        list(if(direction = 'lower', -score, score) order by draw) as scores
    from int_ranking_columns
    where problem = $1 and isfinite(score)
    group by all
),
clusters as (
    select round, task, count(distinct cluster) as clusters
    from int_ranking_values
    where problem = $1
    group by all
)
select * from scores inner join clusters using (round, task) order by round, task, metric, entry
"""


def expert_alone(merge: Merge) -> str | None:
    """The expert whose weights a merge of one model leaves as they are; None for other merges."""
    models = merge.models()
    changed = "slices" in merge.recipe or merge.recipe.get("parameters")
    if merge.method == "passthrough":
        changed = changed or any(each.get("parameters") for each in merge.recipe.get("models", ()))
    plain = merge.method in ("linear", "passthrough") and not changed
    return models[0] if plain and len(models) == 1 else None


def base_and_experts(merge: Merge, problem: MergeProblem) -> tuple[str | None, list[str]]:
    """The base of a merge, and its other models.

    The base is the one that its models have as `base` in the problem file; None if they have
    several. If they have none, it is the recipe's `base_model`.
    """
    stated = {base for name in merge.models() if (base := problem.expert(name).base)}
    base = None if merge.method in BASE_IS_AN_INPUT else merge.base
    if stated:
        base = next(iter(stated)) if len(stated) == 1 else None
    return base, [name for name in merge.models() if name != base]


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """Scores of the columns of a ranking, higher is better.

    rows: of each column and entry, without the scores.
    scores: (round, task, metric) → entry → `[1 + draws]`, the measured score and those of draws.
    """

    rows: list[Row]
    scores: dict[tuple[str, str, str], dict[str, Floats]]

    @property
    def draws(self) -> int:
        """Their largest number."""
        sizes = [v.size - 1 for entries in self.scores.values() for v in entries.values()]
        return max(sizes, default=0)

    def extended(self, other: DrawnScores) -> DrawnScores:
        """With the draws of the other, whose entries are the same."""
        scores = {
            column: {
                entry: np.concatenate([values, other.scores[column][entry][1:]])
                for entry, values in of_entries.items()
            }
            for column, of_entries in self.scores.items()
        }
        return DrawnScores(self.rows, scores)


def drawn_scores(connection: duckdb.DuckDBPyConnection, name: str) -> DrawnScores:
    """The scores of a ranking in the tables `int_ranking_columns` and `int_ranking_values`."""
    table = connection.sql(_SCORES, params=[name]).to_arrow_table()
    lists = table["scores"].combine_chunks()
    rows = table.drop_columns("scores").to_pylist()
    scores: dict[tuple[str, str, str], dict[str, Floats]] = {}
    for place, row in enumerate(rows):
        column = scores.setdefault((row["round"], row["task"], row["metric"]), {})
        column[row["entry"]] = lists[place].values.to_numpy()
    return DrawnScores(rows, scores)


def relative_rows(drawn: DrawnScores, problem: MergeProblem) -> list[Row]:
    """A row for each merged entry, task and metric.

    An expert's score is that of the entry of its name, or of the merge of this expert alone.
    Without the score of an expert, the best one is unknown and there is no difference to it.

    Args:
        drawn: the scores of a ranking.
        problem: the recipes of its entries.

    Returns:
        Rows with round, task, metric, entry, items, clusters, base, over_base, best_experts (all of
        the highest score), over_best, missing (base and experts without a score), and intervals
        (`…_low`, `…_high`), which need draws of items and at least `ENOUGH_CLUSTERS` clusters, and
        whether it depends on the draws that they exclude 0 (`…_undecided`).

    Raises:
        TokenmartError: an entry is not in the problem file (`no-recipe`).
    """
    merges = {merge.name: merge for merge in problem.merges}
    entry_of = {expert.name: expert.name for expert in problem.experts}
    given = {row["entry"] for row in drawn.rows}
    for entry in sorted(given):
        if entry not in merges and entry not in entry_of:
            raise TokenmartError(
                f"{entry}: problem {problem.name} has no recipe of this name, so its experts are "
                "unknown",
                code="no-recipe",
                where=entry,
            )
    alone = {name: expert for name, merge in merges.items() if (expert := expert_alone(merge))}
    for merge_name, expert in alone.items():
        if expert not in given:
            entry_of[expert] = merge_name
    return [
        _relative(row, drawn.scores[row["round"], row["task"], row["metric"]], entry_of, problem)
        for row in drawn.rows
        if row["entry"] in merges.keys() - alone.keys()
    ]


def _relative(
    row: Row, scores: dict[str, Floats], entry_of: dict[str, str], problem: MergeProblem
) -> Row:
    base, experts = base_and_experts(problem.merge(row["entry"]), problem)
    models = experts if base is None else [base, *experts]
    over = {
        model: scores[row["entry"]] - scores[entry_of[model]]
        for model in models
        if entry_of[model] in scores
    }
    missing = [model for model in models if model not in over]
    enough = row["clusters"] >= ENOUGH_CLUSTERS
    relative = {**row, "base": base, "missing": missing}
    over_base = [] if base is None or base in missing else [over[base]]
    over_best = [] if set(experts) & set(missing) else [over[name] for name in experts]
    for key, differences in (("over_base", over_base), ("over_best", over_best)):
        low, high = least_interval(differences) if enough else (None, None)
        is_open = low is not None and exclusion_of_0_is_undecided(differences)
        least = min((float(each[0]) for each in differences), default=None)
        relative |= {
            key: least,
            f"{key}_low": low,
            f"{key}_high": high,
            f"{key}_undecided": is_open,
        }
    best = relative["over_best"]
    relative["best_experts"] = [
        name for name in experts if best is not None and over[name][0] <= best + SAME_SCORE
    ]
    return relative


def least_interval(differences: list[Floats]) -> Interval:
    """95% interval of the least of the differences, whose first value is the measured one."""
    if not differences or differences[0].size == 1:
        return None, None
    draws = np.array(differences)[:, 1:]
    tail = LEVEL / 2
    low = np.quantile(draws, tail, axis=1).min()
    high = np.quantile(draws, 1 - tail / len(differences), axis=1).min()
    return float(low), float(high)


def exclusion_of_0_is_undecided(differences: list[Floats]) -> bool:
    """Whether it depends on the draws that `least_interval` is above 0, or below."""
    draws = np.array(differences)[:, 1:]
    count, tail = draws.shape[1], LEVEL / 2
    not_above, not_below = (draws <= 0).sum(axis=1), (draws >= 0).sum(axis=1)
    open_low = undecided(not_above, count, tail)
    open_high = undecided(not_below, count, tail / len(draws))
    # above 0 are all differences or none is, below 0 it is enough if one is
    surely_not_above = ((not_above > tail * count) & ~open_low).any()
    surely_below = ((not_below < tail / len(draws) * count) & ~open_high).any()
    return bool((open_low.any() and not surely_not_above) or (open_high.any() and not surely_below))
