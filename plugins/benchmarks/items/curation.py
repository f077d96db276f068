"""Choose the items of a benchmark that carry signal, and evaluate the choice on held-out models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from plugins.benchmarks.e2lm.score import WEIGHTS
from plugins.benchmarks.items.held_out import Fold, held_out
from plugins.benchmarks.items.item_scores import ItemScores
from plugins.benchmarks.model_sql import dicts
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.metric_directions import direction_of
from warehouse.paths import Workspace

SQL = Path(__file__).with_name("item_signal.sql")
FEWEST_CHECKPOINTS = 8
"""SQ is undefined for fewer checkpoints."""

FOLDS = 5
"""Maximum number of cross-validation folds."""

_HALF = 2 * FEWEST_CHECKPOINTS


@dataclass(frozen=True)
class Choice:
    """Settings of the choice of items.

    fewest, most: limits on the number of chosen items. subjects: only
    items of these subjects; all if empty. weights: of SQ, RC and CS; RC is not used, because it
    needs later checkpoints.
    """

    fewest: int
    most: int
    subjects: tuple[str, ...] = ()
    weights: tuple[float, float, float] = WEIGHTS


def curate(scores: ItemScores, workspace: Workspace, choice: Choice) -> dict[str, Any]:
    """Choose items with signal (see item_signal.sql), and evaluate the choice on held-out models.

    The items are chosen on all models. The choice is evaluated by cross-validation in up to five
    folds: items are chosen on some models and evaluated on the others (and on the other half of
    the checkpoints, if each model has 16). If there are models of the recipes science and web, a
    fold holds out all models of a shape (size and architecture), so that CS is defined in it.

    Args:
        scores: scores of single items.
        workspace: the checkout with the SQL models.
        choice: limits and weights.

    Returns:
        JSON-ready: `items` (the chosen ones, best first), `signal` of every item, `held_out` by
        statistic, `by_subject` and `by_length`, the settings, `unconstrained` (the number of items
        that is chosen without limits), and `reason` why SQ is undefined.

    Raises:
        TokenmartError: too few items, checkpoints or models, or a column is missing.
    """
    eligible = _eligible(scores, choice)
    fewest_checkpoints, shortest = min((n, name) for name, n in scores.checkpoints.items())
    if fewest_checkpoints < 2:
        what = f"{shortest} has 1 checkpoint, so no rise; leave the model out, or add checkpoints"
        raise refused(scores.path, what, "too-few-checkpoints")
    folds = _folds(scores)
    signal = _choose(scores, choice, "true", "signal_all")
    for number, fold in enumerate(folds):
        _choose(scores, choice, fold.chosen_on, f"signal_{number}")
    database = scores.database
    chosen = [row for row in signal if row["is_chosen"]]
    return {
        "items": [row["item"] for row in chosen],
        "of": eligible,
        "unconstrained": signal[0]["unconstrained"],
        "weights": dict(zip(("sq", "cs"), _weights(scores, choice), strict=True)),
        "models": len(scores.models),
        "folds": [fold.name for fold in folds],
        "reason": None
        if fewest_checkpoints >= FEWEST_CHECKPOINTS
        else f"no SQ of {shortest}: {fewest_checkpoints} of at least {FEWEST_CHECKPOINTS} "
        "checkpoints",
        "held_out": held_out(database, workspace, folds, _weights(scores, choice)),
        "by_subject": _grouped(database, "subject"),
        "by_length": _grouped(
            database,
            "case when characters < 10 then '0 to 9' when characters < 20 then '10 to 19'"
            " when characters < 40 then '20 to 39' when characters < 80 then '40 to 79'"
            " when characters >= 80 then '80 and more' end",
        ),
        "signal": signal,
    }


def has_both_recipes(scores: ItemScores) -> bool:
    """Whether the table distinguishes science from web data."""
    return scores.recipes >= {"science", "web"}


def _weights(scores: ItemScores, choice: Choice) -> tuple[float, float]:
    """Weights of SQ and CS; without both recipes, CS has weight 0."""
    return (choice.weights[0], choice.weights[2]) if has_both_recipes(scores) else (1.0, 0.0)


def _eligible(scores: ItemScores, choice: Choice) -> int:
    """Number of items that may be chosen."""
    if scores.metric is not None and direction_of(scores.metric) == "lower":
        raise refused(
            scores.path,
            f"lower values of {scores.metric} are better, and items are chosen whose scores rise; "
            "reverse the sign of the scores under another name of the metric, or choose another "
            "metric",
            "lower-metric",
        )
    count = scores.items
    if choice.subjects:
        known = dict(
            scores.database.execute(
                "select subject, count(distinct item) from items where subject is not null"
                " group by 1 order by 1"
            ).fetchall()
        )
        for name in choice.subjects:
            if name not in known:
                raise unknown("--subject", name, known)
        count = sum(known[name] for name in set(choice.subjects))
    if count <= choice.fewest and not (choice.subjects and count == choice.fewest):
        fewer = f", or choose fewer with --fewest {count // 2}" if count > 3 else ""
        raise refused(
            scores.path,
            f"{count} items have a score everywhere, no choice for --fewest {choice.fewest}; add "
            f"items{fewer}",
            "too-few-items",
        )
    return count


def _folds(scores: ItemScores) -> list[Fold]:
    """Folds in which each model (or shape, if recipes are compared) is held out once.

    If each model has 16 checkpoints, half of them are held out too.
    """
    halves = min(scores.checkpoints.values()) >= _HALF
    even, odd = ("checkpoint % 2 = 0", "checkpoint % 2 = 1") if halves else ("true", "true")
    column = "shape" if has_both_recipes(scores) else "model"
    units = sorted(set(scores.shapes.values())) if column == "shape" else list(scores.models)
    if len(units) == 1:
        if not halves:
            what, two = (
                ("one model", "2 models")
                if column == "model"
                else ("models of one size and architecture", "models of 2 sizes or architectures")
            )
            raise refused(
                scores.path,
                f"{what} with {min(scores.checkpoints.values())} checkpoints; a held-out "
                f"evaluation needs {two}, or {_HALF} checkpoints of each",
                "too-few-models",
            )
        return [Fold("odd checkpoints", even, odd), Fold("even checkpoints", odd, even)]
    count = min(FOLDS, len(units))
    folds = []
    for number in range(count):
        out = units[number::count]
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in out)
        folds.append(
            Fold(
                ", ".join(out) + (", odd checkpoints" if halves else ""),
                f"{column} not in ({listed}) and {even}",
                f"{column} in ({listed}) and {odd}",
            )
        )
    return folds


def _choose(scores: ItemScores, choice: Choice, where: str, name: str) -> list[dict[str, Any]]:
    """Create the table `name` with the signal of each item, on the rows of a condition."""
    database = scores.database
    subjects = ", ".join("'" + one.replace("'", "''") + "'" for one in choice.subjects)
    of_subjects = f" and subject in ({subjects})" if subjects else ""
    database.execute(
        "create or replace temp table item_scores as"
        f" select * exclude (subject, characters) from items where {where}{of_subjects}"
    )
    weight_sq, weight_cs = _weights(scores, choice)
    values = {
        "fewest_items": choice.fewest,
        "most_items": choice.most,
        "weight_sq": weight_sq,
        "weight_cs": weight_cs,
    }
    text = SQL.read_text(encoding="utf-8")
    database.execute(f"create or replace table {name} as {text}", values)
    return dicts(database, f"from {name} order by place")


def _grouped(database: duckdb.DuckDBPyConnection, group: str) -> list[dict[str, Any]]:
    """Mean signal of the items of each group; groups without a name are left out."""
    return dicts(
        database,
        f"""
        with groups as (
            select distinct item, {group} as label
            from items
        )

        select
            label as "group",
            count(*) as items,
            avg(case when is_chosen then 1 else 0 end) as share_chosen,
            avg(score) as score,
            avg(rise) as rise,
            avg(noise_variance) as noise_variance
        from signal_all
        inner join groups using (item)
        where label is not null
        group by label
        order by avg(merit) desc, label
        """,
    )
