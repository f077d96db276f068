"""Parts of the report that need no target: models × metrics, profiles, cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.ranking.loading import lengths_read, models_by, outdated_note, records
from analysis.ranking.results import BASELINES
from analysis.ranking.view import lengths_note
from warehouse.errors import TokenmartError
from warehouse.problem.spec import Problem
from warehouse.sql.connection import connect_read_only
from warehouse.sql.targets import connect_to_targets
from warehouse.store.provenance import code_revision, versions
from warehouse.terminal import counted, listed

if TYPE_CHECKING:
    import duckdb

    from analysis.ranking.metric_table import MetricTable
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked, RankedModel

FIRST_METRICS = (*BASELINES, "longppl", "context_gain", "retrieval_gain")
"""Shown first; the others follow by name."""


@dataclass(frozen=True)
class Cell:
    """One model's value of one variant; None with a reason.

    `of_documents` are the documents of the model that has most.
    """

    value: float | None
    reason: str
    tokens: int
    documents: int
    of_documents: int


@dataclass(frozen=True)
class ModelRow:
    """One model: its target score, where there is one, and a cell for each column."""

    model: RankedModel
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
    bytes_on_disk: int
    conditions_complete: int
    conditions: int
    documents_missing: int
    tokens_processed: int
    tokens_scored: int
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Run:
    """The part of a problem that was run, in words; it may be a small part of its file.

    words: models, documents and tokens. conditions: of which. target: its tasks and items.
    why_no_target: where there is none. viewer: the command that shows a document;
        empty without documents.
    notes: sentences on documents of which models read a part, and on figures older than the files.
    """

    words: str
    conditions: str
    target: str
    why_no_target: str
    viewer: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One problem's metrics and what they cost.

    run: what of the problem was run, in words.
    models: those of which something was extracted, in the problem's order.
    profiles: of the whole document. gains: by the condition whose gain it is.
    """

    problem: Ranked
    run: Run
    models: tuple[RankedModel, ...]
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
    problem: Ranked,
    workspace: Workspace,
    table: MetricTable | None,
    settings: dict[str, Any],
    scored: int,
) -> Overview:
    """Read what was extracted and built for a problem.

    Args:
        table: with the target; None where too few models have a score.
        settings: of the command, for the page.
        scored: number of models with a target score.

    Raises:
        TokenmartError: nothing was built.
    """
    targets = zip(table.models, table.target.tolist(), strict=True) if table else ()
    scores = {model.model_id: score for model, score in targets}
    with connect_read_only(workspace) as connection:
        values = _models_table(connection, problem, scores)
        among = tuple(row.model for row in values.rows)
        if not among:
            command = "extract" if isinstance(problem, Problem) else "data fetch"
            raise TokenmartError(
                f"{problem.name}: the mart metric_values is empty; run `tokenmart {command} "
                f"--problem {problem.asked}` and `tokenmart dbt build`"
            )
        profiles, gains = _profiles(connection, problem.name, among)
        outdated = outdated_note(problem, workspace)
        run = _run(connection, workspace, problem, among, outdated, scored)
        costs = _costs(connection, problem.name, among, workspace)
    return Overview(
        problem=problem,
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
    parameters = {"problem": problem.name}
    cells = {
        (metric, variant, model_id): Cell(*cell)
        for metric, variant, model_id, *cell in connection.execute(
            "select metric, variant, model_id, case when isfinite(value) then value end,"
            " coalesce(reason, ''), coalesce(tokens, 0), coalesce(documents, 0),"
            " coalesce(max(documents) over (partition by metric, variant), 0)"
            " from metric_values where problem = $problem",
            parameters,
        ).fetchall()
    }
    there = connection.execute(
        "select model_id from units where problem = $problem and status = 'done'"
        " union select model_id from metric_values where problem = $problem and isfinite(value)",
        parameters,
    ).fetchall()
    models = [model for model in problem.ranked_models if (model.model_id,) in there]
    ids = {model.model_id for model in models}
    names = sorted({key[:2] for key in cells}, key=_order)
    found = Counter(k[:2] for k, cell in cells.items() if cell.value is not None and k[2] in ids)
    best: dict[str, str] = {}
    for metric, variant in sorted(names, key=lambda name: -found[name]):
        best.setdefault(metric, variant)
    directions = connection.execute("select metric, variant, direction from metric_catalog")
    direction_of = {(metric, variant): way for metric, variant, way in directions.fetchall()}
    catalogue = connection.execute(
        "select metric, coalesce(arg_min(formula, variant), ''),"
        " coalesce(arg_min(description, variant), '')"
        " from metric_catalog group by metric order by metric"
    ).fetchall()
    return ModelsTable(
        columns=tuple(
            ValueColumn(
                metric,
                variant,
                direction_of.get((metric, variant), ""),
                metric in BASELINES or best[metric] == variant,
            )
            for metric, variant in names
        ),
        rows=tuple(
            ModelRow(
                model,
                scores.get(model.model_id),
                tuple(cells.get((*name, model.model_id)) for name in names),
            )
            for model in models
        ),
        metrics=tuple(_description(*row) for row in catalogue if row[0] in best),
    )


def _order(name: tuple[str, str]) -> tuple[int, str, str]:
    metric, variant = name
    known = metric in FIRST_METRICS
    return FIRST_METRICS.index(metric) if known else len(FIRST_METRICS), metric, variant


def _run(
    connection: duckdb.DuckDBPyConnection,
    workspace: Workspace,
    problem: Ranked,
    among: Sequence[RankedModel],
    outdated: str,
    scored: int,
) -> Run:
    conditions = connection.execute(
        "select condition, max(documents_done), sum(tokens_scored) from coverage"
        " where problem = ? group by condition order by condition",
        [problem.name],
    ).fetchall()
    with connect_to_targets(workspace) as targets:
        tasks = targets.execute(
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
        why_no_target=f"{scored} of {counted(len(problem.ranked_models), 'model')} with a score, "
        f"too few (target: {kind})"
        if kind
        else "the problem file names none",
        viewer=f"tokenmart show --problem {problem.asked} --document 0 {named} --measure gain "
        "--out tokens.html"
        if documents
        else "",
        notes=_notes(connection, problem, among, outdated),
    )


def _notes(
    connection: duckdb.DuckDBPyConnection,
    problem: Ranked,
    among: Sequence[RankedModel],
    outdated: str,
) -> tuple[str, ...]:
    """How much the models read of documents that were cut, and warnings."""
    rows = connection.execute(
        "with read as (select distinct model_id, doc_id, document_tokens as tokens,"
        " document_tokens_total as whole from units where problem = ? and status = 'done')"
        " select (count(*) filter (where tokens < whole), count(*), sum(tokens), sum(whole)),"
        " model_id from read group by model_id having sum(tokens) < sum(whole)",
        [problem.name],
    ).fetchall()
    lines = [
        f"Cut: {listed(ids)}: {cut} of {counted(documents, 'document')}, {tokens:,} of {whole:,} "
        "tokens read."
        for (cut, documents, tokens, whole), ids in models_by(rows, among).items()
    ]
    lengths = lengths_read(connection, problem)
    read = models_by(lengths, among)
    warnings = [lengths_note(read, problem.asked)] if len(read) > 1 else []
    warnings += [outdated] if outdated else []
    return (*lines, *(f"Warning: {warning}." for warning in warnings))


def short_name(full_id: str) -> str:
    """A model's name without its organisation."""
    return full_id.rsplit("/", 1)[-1]


def _description(metric: str, formula: str, description: str) -> MetricDescription:
    text = description.replace(f"`{formula}`", "", 1).strip()
    text = text.removeprefix("Formula:").lstrip(" .:\n")
    return MetricDescription(metric, formula, text)


def _profiles(
    connection: duckdb.DuckDBPyConnection, problem: str, among: Sequence[RankedModel]
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
    among: Sequence[RankedModel],
    workspace: Workspace,
) -> tuple[Cost, ...]:
    rows = records(
        connection,
        "select model_id, count(*) filter (where complete) as conditions_complete,"
        " count(*) as conditions, sum(documents_missing + documents_failed) as documents_missing,"
        " sum(tokens_processed) as tokens_processed, sum(tokens_scored) as tokens_scored,"
        " sum(seconds) as seconds, coalesce(max(peak_bytes), 0) as peak_bytes"
        " from coverage where problem = ? group by model_id",
        [problem],
    )
    found = {row.pop("model_id"): row for row in rows}
    tokens = workspace.tokens / f"problem={problem}"
    return tuple(
        Cost(
            model=short_name(model.full_id),
            bytes_on_disk=sum(
                path.stat().st_size
                for path in tokens.glob(f"model_id={model.model_id}/*/*.parquet")
            ),
            **found[model.model_id],
        )
        for model in among
        if model.model_id in found
    )
