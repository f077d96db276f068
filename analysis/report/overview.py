"""Parts of the report that need no target: models × metrics, profiles, cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.ranking.leaderboard import BASELINES
from analysis.ranking.metric_table import Model
from warehouse.errors import TokenmartError
from warehouse.problem.models import series_of
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision, versions
from warehouse.terminal import counted

if TYPE_CHECKING:
    import duckdb

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

    model: Model
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
class MetricDescription:
    """The catalogue's description of a metric, without the formula at its start."""

    name: str
    formula: str
    description: str


@dataclass(frozen=True)
class ModelsTable:
    """Models × metrics: rows in the problem's order; metrics: the catalogue's entry of each."""

    columns: tuple[ValueColumn, ...]
    rows: tuple[ModelRow, ...]
    metrics: tuple[MetricDescription, ...]

    @property
    def has_target(self) -> bool:
        """Whether a model has a score."""
        return any(row.target is not None for row in self.rows)


@dataclass(frozen=True)
class ProfileBand:
    """One model's means in one band of positions; `gain` is None without a window condition."""

    model: str
    family: str
    position: float
    nll: float
    gain: float | None
    tokens: int


@dataclass(frozen=True)
class Cost:
    """Cost of one model under all conditions, and the size of its rows on disk."""

    model: str
    family: str
    bytes_on_disk: int
    conditions_complete: int
    conditions: int
    documents_missing: int
    tokens_processed: int
    tokens_scored: int
    seconds: float
    peak_bytes: int

    @property
    def bytes_per_row(self) -> float:
        """Of the token store; NaN where nothing is there."""
        known = self.bytes_on_disk and self.tokens_scored
        return self.bytes_on_disk / self.tokens_scored if known else math.nan


@dataclass(frozen=True)
class Run:
    """The part of a problem that was run, in words; it may be a small part of its file.

    words: models, documents and tokens. conditions: of which. target: its tasks and items.
    why_no_target: where there is none. viewer: the command that shows a document.
    """

    words: str
    conditions: str
    target: str
    why_no_target: str
    viewer: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One problem's metrics and what they cost.

    run: what of the problem was run, in words.
    models: those of which something was extracted, in the problem's order.
    profiles: of the whole document. gains: by the condition whose gain it is.
    """

    problem: str
    title: str
    description: str
    run: Run
    models: tuple[Model, ...]
    values: ModelsTable
    profiles: tuple[ProfileBand, ...]
    gains: dict[str, tuple[ProfileBand, ...]]
    costs: tuple[Cost, ...]
    provenance: dict[str, Any]

    @property
    def families(self) -> tuple[str, ...]:
        """The family of each model."""
        return tuple(model.family for model in self.models)


def overview(
    problem: Ranked, workspace: Workspace, scores: Mapping[str, float], settings: dict[str, Any]
) -> Overview:
    """Read what was extracted and built for a problem; `scores` has the target by model id.

    Raises:
        TokenmartError: nothing was built.
    """
    with connect_read_only(workspace) as connection:
        values = _models_table(connection, problem, scores)
        among = tuple(row.model for row in values.rows)
        if not among:
            raise TokenmartError(
                f"{problem.name}: the mart metric_values is empty; run `tokenmart extract "
                f"--problem {problem.asked}` and `tokenmart dbt build`"
            )
        profiles, gains = _profiles(connection, problem.name, among)
        run = _run(connection, problem, among)
        costs = _costs(connection, problem.name, among, workspace)
    return Overview(
        problem=problem.name,
        title=problem.title,
        description=problem.description,
        run=run,
        models=among,
        values=values,
        profiles=profiles,
        gains=gains,
        costs=costs,
        provenance={
            **code_revision(),
            "versions": versions(("tokenmart", "duckdb", "numpy", "scikit-learn")),
            **settings,
        },
    )


def _models_table(
    connection: duckdb.DuckDBPyConnection, problem: Ranked, scores: Mapping[str, float]
) -> ModelsTable:
    """All values of a problem that were built, of the models that were extracted."""
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
    of_metric = {row[0]: row for row in sorted(catalogue, key=lambda row: row[:2], reverse=True)}
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
                Model(m.model_id, m.full_id, m.family, m.parameters, series_of(m)),
                scores.get(m.model_id),
                tuple(cells.get((*name, m.model_id)) for name in names),
            )
            for m in models
        ),
        metrics=tuple(
            _description(metric, row[3] or "", row[4] or "")
            for metric, row in sorted(of_metric.items())
            if metric in {name[0] for name in names}
        ),
    )


def _order(name: tuple[str, str]) -> tuple[int, str, str]:
    metric, variant = name
    known = metric in FIRST_METRICS
    return FIRST_METRICS.index(metric) if known else len(FIRST_METRICS), metric, variant


def _run(connection: duckdb.DuckDBPyConnection, problem: Ranked, among: Sequence[Model]) -> Run:
    conditions = connection.execute(
        "select condition, max(documents_done), sum(tokens_scored) from coverage"
        " where problem = ? group by condition order by condition",
        [problem.name],
    ).fetchall()
    tasks = connection.execute(
        "select distinct task, items from downstream_scores"
        " where problem = ? and task != 'overall' order by task",
        [problem.name],
    ).fetchall()
    documents = max((row[1] or 0 for row in conditions), default=0)
    tokens = sum(row[2] or 0 for row in conditions)
    words = [f"{len(among)} of {counted(len(problem.ranked_models), 'model')}"]
    if documents:
        words += [counted(documents, "document"), f"{tokens:,} tokens scored"]
    named = " ".join(f"--model {model.full_id}" for model in among[:2])
    kind = problem.target.kind if problem.target else ""
    return Run(
        words=", ".join(words),
        conditions="conditions: " + (", ".join(row[0] for row in conditions) or "none"),
        target=", ".join(f"{task} ({items} items)" for task, items in tasks) or kind,
        why_no_target=f"no model has a score yet (target: {kind})"
        if kind
        else "the problem file names none",
        viewer=f"tokenmart show --problem {problem.asked} --document 0 {named} --measure gain "
        "--out tokens.html",
    )


def short_name(full_id: str) -> str:
    """A model's name without its organisation."""
    return full_id.rsplit("/", 1)[-1]


def _description(metric: str, formula: str, description: str) -> MetricDescription:
    text = description.replace(f"`{formula}`", "", 1).strip()
    text = text.removeprefix("Formula:").lstrip(" .:\n")
    return MetricDescription(metric, formula, text)


def _profiles(
    connection: duckdb.DuckDBPyConnection, problem: str, among: Sequence[Model]
) -> tuple[tuple[ProfileBand, ...], dict[str, tuple[ProfileBand, ...]]]:
    rows = connection.execute(
        "select model_id, condition, position_from, position_to, nll, gain, tokens"
        " from position_profile where problem = ? and nll is not null"
        " order by condition, model_id, position_from",
        [problem],
    ).fetchall()
    models = {model.model_id: model for model in among}
    full: list[ProfileBand] = []
    gains: dict[str, list[ProfileBand]] = {}
    for model_id, condition, first, last, nll, gain, tokens in rows:
        model = models.get(model_id)
        if model is None:
            continue
        middle = math.sqrt(max(first, 8) * last)
        band = ProfileBand(short_name(model.full_id), model.family, middle, nll, gain, tokens)
        (full if gain is None else gains.setdefault(condition, [])).append(band)
    return tuple(full), {condition: tuple(bands) for condition, bands in gains.items()}


def _costs(
    connection: duckdb.DuckDBPyConnection,
    problem: str,
    among: Sequence[Model],
    workspace: Workspace,
) -> tuple[Cost, ...]:
    rows = connection.execute(  # in the order of `Cost`
        "select model_id, count(*) filter (where complete), count(*),"
        " sum(documents_missing + documents_failed), sum(tokens_processed),"
        " sum(tokens_scored), sum(seconds), coalesce(max(peak_bytes), 0)"
        " from coverage where problem = ? group by model_id",
        [problem],
    ).fetchall()
    found = {model_id: figures for model_id, *figures in rows}
    return tuple(
        Cost(
            short_name(model.full_id),
            model.family,
            _bytes_on_disk(workspace, problem, model.model_id),
            *found[model.model_id],
        )
        for model in among
        if model.model_id in found
    )


def _bytes_on_disk(workspace: Workspace, problem: str, model_id: str) -> int:
    folder = workspace.tokens / f"problem={problem}" / f"model_id={model_id}"
    return sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
