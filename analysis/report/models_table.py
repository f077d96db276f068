"""Models × metrics: every value, or why there is none and on how many tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.ranking.metric_selection import BASELINES
from warehouse.sql.connection import connect_read_only

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

FIRST_METRICS = (*BASELINES, "longppl", "context_gain", "retrieval_gain")
"""Shown first; the others follow by name."""


@dataclass(frozen=True)
class Cell:
    """One model's value of one variant; None with a reason."""

    value: float | None
    reason: str
    tokens: int
    documents: int

    @property
    def behind(self) -> str:
        """The documents and tokens behind the value."""
        return f"{self.tokens:,} tokens, {self.documents:,} documents"


@dataclass(frozen=True)
class ModelRow:
    """One model: its target score, where there is one, and a cell for each column."""

    model_id: str
    full_id: str
    family: str
    target: float | None
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class ValueColumn:
    """A variant. `shown` at first: of a metric the one with values for most models."""

    metric: str
    variant: str
    direction: str
    shown: bool


@dataclass(frozen=True)
class ModelsTable:
    """Rows in the problem's order. described: metric → formula and description."""

    columns: tuple[ValueColumn, ...]
    rows: tuple[ModelRow, ...]
    described: dict[str, tuple[str, str]]

    @property
    def has_target(self) -> bool:
        """Whether a model has a score."""
        return any(row.target is not None for row in self.rows)


def models_table(problem: Ranked, workspace: Workspace, scores: Mapping[str, float]) -> ModelsTable:
    """All values of a problem that were built, of the models that were extracted.

    Args:
        problem: whose models.
        workspace: the checkout.
        scores: the target by model id; empty without one.
    """
    with connect_read_only(workspace) as connection:
        values = connection.execute(
            "select metric, variant, model_id, value, reason, tokens, documents"
            " from metric_values where problem = ?",
            [problem.name],
        ).fetchall()
        catalogue = connection.execute(
            "select metric, variant, direction, formula, description from metric_catalog"
        ).fetchall()
        run = connection.execute(
            "select distinct model_id from units where problem = ? and status = 'done'",
            [problem.name],
        ).fetchall()
    described = {(row[0], row[1]): row for row in catalogue}
    cells = {
        (metric, variant, model_id): Cell(
            None if value is None or not math.isfinite(value) else float(value),
            reason or "",
            int(tokens or 0),
            int(documents or 0),
        )
        for metric, variant, model_id, value, reason, tokens, documents in values
    }
    there = {row[0] for row in run}
    there |= {key[2] for key, cell in cells.items() if cell.value is not None}
    models = [model for model in problem.ranked_models if model.model_id in there]
    names = sorted({key[:2] for key in cells}, key=_order)
    found = Counter(
        key[:2]
        for key, cell in cells.items()
        if cell.value is not None and key[2] in {model.model_id for model in models}
    )
    columns = []
    for metric, variant in names:
        best = max((n for n in names if n[0] == metric), key=lambda n: found[n])
        direction = described[metric, variant][2] if (metric, variant) in described else ""
        shown = metric in BASELINES or (metric, variant) == best
        columns.append(ValueColumn(metric, variant, direction, shown))
    return ModelsTable(
        columns=tuple(columns),
        rows=tuple(
            ModelRow(
                model.model_id,
                model.full_id,
                model.family,
                scores.get(model.model_id),
                tuple(cells.get((*name, model.model_id)) for name in names),
            )
            for model in models
        ),
        described={
            metric: (row[3] or "", row[4] or "")
            for (metric, _), row in sorted(described.items(), reverse=True)
            if metric in {name[0] for name in names}
        },
    )


def _order(name: tuple[str, str]) -> tuple[int, str, str]:
    metric, variant = name
    known = metric in FIRST_METRICS
    return FIRST_METRICS.index(metric) if known else len(FIRST_METRICS), metric, variant
