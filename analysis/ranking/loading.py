"""Reading of a problem's metric table, target and documents from the marts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import duckdb
import numpy as np

from analysis.preregistration.entries import preregistered_metrics
from analysis.ranking.metric_table import (
    Direction,
    MetricColumn,
    MetricTable,
    Model,
    known_target,
)
from analysis.statistics.correlations import Floats, without_rounding
from analysis.statistics.document_noise import Aggregation, DocumentParts
from warehouse.errors import StorageError, TokenmartError, first_line
from warehouse.metrics.tested_metrics import (
    built_metrics,
    may_be_lost,
    record_metrics,
    tested_besides,
    tested_record,
)
from warehouse.problem.models import series_of
from warehouse.problem.needed import refresh_needed
from warehouse.problem.spec import FileTarget, Problem
from warehouse.problem.target_file import read_locked_target
from warehouse.sql.connection import connect_read_only
from warehouse.sql.problem_state import BuildState, read_states
from warehouse.sql.views import connect_to_targets

if TYPE_CHECKING:
    from warehouse.metrics.tested_metrics import MetricRecord
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

_COLUMNS = """
    select
        metric,
        variant,
        family,
        coalesce(parameters, '{}') as parameters,
        direction,
        is_admissible as admissible,
        coalesce(formula, '') as formula,
        list(struct_pack(model_id, value, documents, tokens)) as cells
    from metric_values
    left join metric_catalog using (metric, variant)
    where problem = ?
    group by all
    order by metric, variant
"""

_PARTS = """
    select model_id, doc_id, numerator, denominator, weight
    from metric_parts
    where problem = ? and metric = ? and variant = ?
"""

_FORMATS = """
    select distinct dtype, model_id
    from units
    where problem = ? and status = 'done'
"""

_ATTENTION = """
    select distinct attention
    from units
    where problem = ? and status = 'done'
    order by 1
"""

# of two documents with one limit, neither has more tokens than the one that was cut at it
_LENGTHS = """
    with read as (
        select distinct model_id, doc_id, document_tokens, document_tokens_total
        from units
        where problem = ? and status = 'done'
    )

    select distinct document_tokens, model_id
    from read
    where doc_id = (
        select doc_id
        from read
        group by doc_id
        having max(document_tokens)
            > min(document_tokens) filter (where document_tokens < document_tokens_total)
        order by doc_id
        limit 1
    )
"""


def load_table(
    problem: Ranked,
    workspace: Workspace,
    ideas: Sequence[MetricRecord] = (),
    better: Direction = "higher",
) -> MetricTable:
    """Read the marts and the target of a problem; nothing is recorded as tested.

    With preregistered metrics, dbt parses its project if a file of it has changed.

    Args:
        problem: whose models and target count.
        workspace: with the DuckDB file and the locked files.
        ideas: to rank together with the variants of the build.
        better: which values of the ideas are better.

    Raises:
        TokenmartError: no mart, no value, or no target.
        LockedFileError: the target file is missing or changed.
        StorageError: the record of what was tested can't be read.
    """
    with connect_read_only(workspace) as connection:
        rows = records(connection, _COLUMNS, [problem.name])
        catalogue = {
            row["metric"]: row
            for row in records(
                connection, "select metric, direction, is_admissible from metric_catalog"
            )
        }
        built = built_metrics(connection, problem.name)
        formats = connection.execute(_FORMATS, [problem.name]).fetchall()
        attention = connection.execute(_ATTENTION, [problem.name]).fetchall()
        lengths = connection.execute(_LENGTHS, [problem.name]).fetchall()
    scores, source = load_target(problem, workspace)
    models = _scored_models(problem, scores)
    if not rows and not ideas:
        raise nothing_built(problem)
    columns = [_column_of_build(row, models) for row in rows]
    _refuse_taken_names(ideas, catalogue)
    ideas = [replace(idea, direction=better) for idea in ideas]
    present = (*built, *ideas)
    target = without_rounding(np.array([scores[model.model_id] for model in models]))
    known = known_target(models, target)
    tested = tested_record(workspace, problem.name, known)
    besides = tested_besides(tested, present)
    return MetricTable(
        problem=problem.name,
        models=models,
        target=target,
        columns=(*(_column_of_record(idea, models, None) for idea in ideas), *columns),
        without_target=tuple(m.full_id for m in problem.ranked_models if m.model_id not in scores),
        target_source=source,
        dtypes=_models_by(formats, models),
        lengths=_models_by(lengths, models),
        state=state_of(problem, workspace),
        attention=tuple(name for (name,) in attention),
        recorded=tuple(_column_of_record(e, models, catalogue.get(e.metric)) for e in besides),
        tested_since=tested.since,
        changed_labels=tested.changes(known),
        record_lost=may_be_lost(workspace, tested),
        present=present,
        registered=preregistered_metrics(workspace, problem),
        baseline=problem.baseline,
        argument=problem.argument,
        build=problem.build,
    )


def _refuse_taken_names(ideas: Sequence[MetricRecord], catalogue: Mapping[str, Any]) -> None:
    """Stop at an idea that has the name of a metric."""
    for idea in ideas:
        if idea.metric in catalogue:
            raise TokenmartError(
                f"name {idea.metric!r}: a metric has this name; choose another",
                code="name-taken",
                where="name",
            )


def _scored_models(problem: Ranked, scores: Mapping[str, float]) -> tuple[Model, ...]:
    """The models of a problem that have a target score; TokenmartError below three."""
    models = tuple(
        Model(spec.model_id, spec.full_id, spec.family, spec.parameters, series_of(spec))
        for spec in problem.ranked_models
        if spec.model_id in scores
    )
    if len(models) < 3:
        raise TokenmartError(
            f"{problem.name}: {len(models)} models have a target score, 3 are needed; "
            f"{remedy_without_target(problem)}",
            code="too-few-scores",
            where=problem.name,
        )
    return models


def state_of(problem: Ranked, workspace: Workspace) -> BuildState:
    """What a problem's metrics were built from, and what its file, its data and SQL are now.

    Raises:
        StorageError: a file of a table is damaged.
    """
    if isinstance(problem, Problem):
        refresh_needed(problem, workspace)
    return read_states(workspace, problem.name, problem.marts)


def nothing_built(problem: Ranked) -> TokenmartError:
    """The error where a problem has no value of any metric."""
    bring = "extract" if isinstance(problem, Problem) else "data fetch"
    return TokenmartError(
        f"{problem.name}: the mart metric_values is empty; run "
        f"`tokenmart {bring} --problem {problem.argument}` and `{problem.build}`",
        code="nothing-built",
        where="metric_values",
    )


def record_tested(table: MetricTable, workspace: Workspace) -> None:
    """Record the metrics and ideas of a table as tested.

    Every command does that when its results are computed and none has been shown: a command that
    fails counts nothing, and nothing that was seen stays uncounted.

    Raises:
        StorageError: the record can't be read or written.
    """
    record_metrics(workspace, table.problem, table.present, table.known_target)


def _models_by(
    facts: Sequence[tuple[Any, str]], models: Sequence[Model]
) -> dict[Any, tuple[str, ...]]:
    """Facts about models by id → the full ids of these models that each is true of."""
    models_of: dict[Any, list[str]] = {}
    for model in models:
        for fact in sorted(fact for fact, model_id in facts if model_id == model.model_id):
            models_of.setdefault(fact, []).append(model.full_id)
    return {fact: tuple(models_of[fact]) for fact in sorted(models_of)}


def records(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: object = None
) -> list[dict[str, Any]]:
    """The rows of a query by the names of their columns.

    Raises:
        StorageError: the database has not the columns of this version.
    """
    try:
        result = connection.execute(sql, parameters)
    except duckdb.BinderException as error:
        raise StorageError(
            f"another version built the database ({first_line(error)}); run `tokenmart dbt run`"
        ) from None
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _column_of_build(row: dict[str, Any], models: Sequence[Model]) -> MetricColumn:
    """The column of a variant that is built; TokenmartError where the catalogue lacks it."""
    name = f"{row['metric']}/{row['variant']}"
    if row["direction"] is None:
        raise TokenmartError(
            f"metric {name} has values but no line in metric_catalog; describe it in its "
            "metric file and run `tokenmart dbt build`",
            code="undescribed-metric",
            where=name,
        )
    cells = {cell["model_id"]: cell for cell in row.pop("cells") if cell["value"] is not None}
    of_model = [cells.get(model.model_id, {}) for model in models]
    return MetricColumn(
        **row | {"parameters": json.loads(row["parameters"])},
        values=np.array([cell.get("value", math.nan) for cell in of_model]),
        documents=tuple(cell.get("documents") or 0 for cell in of_model),
        tokens=tuple(cell.get("tokens") or 0 for cell in of_model),
    )


def _column_of_record(entry: MetricRecord, models: Sequence[Model], row: Any) -> MetricColumn:
    """The column of an idea, or of a variant of an earlier build; `row`: its metric's, if known."""
    variant = entry.kind == "variant"
    direction = row["direction"] if variant and row else entry.direction
    return MetricColumn(
        metric=entry.metric,
        variant=entry.variant,
        family=entry.kind,
        parameters={},
        direction="lower" if direction == "lower" else "higher",
        admissible=variant and (row is None or row["is_admissible"]),
        formula=entry.definition,
        values=np.array([entry.values.get(model.model_id, math.nan) for model in models]),
        kind=entry.kind,
    )


def remedy_without_target(problem: Ranked) -> str:
    """What to do to get more target scores, for messages."""
    kind = problem.target.kind if problem.target else ""
    return {
        "recall": f"run `tokenmart recall --problem {problem.argument}`",
        "imported": "import those of more models (`tokenmart data import --help`)",
        "table": "add models to its table, or correct `target` in the problem file",
    }.get(kind, "place the target file")


def load_target(problem: Ranked, workspace: Workspace) -> tuple[dict[str, float], dict[str, Any]]:
    """Target scores by model_id, and where they came from.

    Raises:
        TokenmartError: the problem has no target.
        LockedFileError: the target file is missing, malformed or changed.
    """
    if problem.target is None:
        raise TokenmartError(
            f"problem {problem.name} has no target: nothing to correlate with; add a target "
            "section to its problem file (`tokenmart sql` and `tokenmart extract` need none)",
            code="no-target",
            where=problem.name,
        )
    if isinstance(problem.target, FileTarget):
        models = [spec.full_id for spec in problem.ranked_models]
        target = read_locked_target(
            workspace,
            problem.name,
            problem.target.path,
            models,
            argument=problem.argument,
            some=True,
        )
        every = problem.ranked_models
        scores = {m.model_id: target.scores[m.full_id] for m in every if m.full_id in target.scores}
        path = problem.target.path.as_posix()
        return scores, {"kind": "file", "path": path, "sha256": target.sha256}
    with connect_to_targets(workspace) as connection:
        rows = connection.execute(
            "select model_id, score, stderr, items from downstream_scores"
            " where problem = ? and model_id in ? and task = 'overall' and score is not null",
            [problem.name, [model.model_id for model in problem.ranked_models]],
        ).fetchall()
    measured = {row[0]: row[1:] for row in rows}
    lines = "".join(f"{row[0]} {float(row[1]):.12g}\n" for row in sorted(rows))
    source = {
        "kind": problem.target.kind,
        "sha256": hashlib.sha256(lines.encode()).hexdigest(),  # a second measurement is noticed
        "items_per_model": {model_id: items for model_id, (_, _, items) in measured.items()},
        "stderr": {model_id: stderr for model_id, (_, stderr, _) in measured.items()},
    }
    return {model_id: float(row[0]) for model_id, row in measured.items()}, source


def document_parts(
    workspace: Workspace, table: MetricTable, column: MetricColumn
) -> DocumentParts | None:
    """The oriented parts of a column.

    None for ideas, whose numbers have no documents, for variants of one document or that are a
    quantile of documents, and where no build has made `metric_parts`.
    """
    aggregation = column.parameters.get("aggregation", "micro")
    if column.kind != "variant" or aggregation not in get_args(Aggregation):
        return None
    with connect_read_only(workspace) as connection:
        try:
            key = (table.problem, column.metric, column.variant)
            parts = read_parts(connection, key, [model.model_id for model in table.models])
        except duckdb.CatalogException:
            return None
    if parts.shape[2] < 2:
        return None
    if column.direction == "lower":
        parts[0] *= -1
    return DocumentParts(parts, aggregation)


def read_parts(
    connection: duckdb.DuckDBPyConnection, variant: tuple[str, str, str], models: Sequence[str]
) -> Floats:
    """`[3, n, D]` of these models and all documents: numerator, denominator, weight or NaN.

    Args:
        variant: problem, metric and variant.
        models: by model_id.
    """
    rows = connection.execute(_PARTS, variant).fetchall()
    documents = {doc_id: place for place, doc_id in enumerate(sorted({row[1] for row in rows}))}
    places = {model_id: place for place, model_id in enumerate(models)}
    parts = np.full((3, len(models), len(documents)), np.nan)
    for model_id, doc_id, *values in rows:
        if model_id in places:
            parts[:, places[model_id], documents[doc_id]] = np.array(values, float)  # None: NaN
    return parts
