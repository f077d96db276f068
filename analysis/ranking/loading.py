"""Reading of a problem's metric table, target and documents from the marts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from analysis.preregistration.entries import preregistered_metrics
from analysis.ranking.metric_table import Direction, MetricColumn, MetricTable, Model, PartsOf
from analysis.statistics.correlations import Floats, settled
from analysis.statistics.document_noise import MINIMUM_DOCUMENTS, Aggregation, DocumentParts
from warehouse.errors import TokenmartError
from warehouse.metrics.tries import built_tries, tested_besides
from warehouse.problem.models import series_of
from warehouse.problem.spec import FileTarget
from warehouse.problem.target_file import read_locked_target
from warehouse.sql.connection import connect_read_only

if TYPE_CHECKING:
    from analysis.ranking.other_labs import OtherLab
    from warehouse.metrics.tries import Try
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

_TURNED: dict[Aggregation, Aggregation] = {"q10": "q90", "q90": "q10"}
"""The same documents once values are negated: the highest decile becomes the lowest."""

_PARTS = """
    select model_id, doc_id, numerator, denominator, weight
    from metric_parts
    where problem = ? and metric = ? and variant = ?
"""


def load_table(
    problem: Ranked,
    workspace: Workspace,
    ideas: Sequence[Try] = (),
    better: Direction = "higher",
    others: Sequence[OtherLab] = (),
) -> MetricTable:
    """Read the marts and the target of a problem.

    Args:
        problem: whose models and target count.
        workspace: with the DuckDB file and the locked files.
        ideas: to rank together with the variants of the build.
        better: which values of the ideas are better.
        others: labs whose models are ranked, too.

    Raises:
        TokenmartError: no mart, no value, or no target.
        LockedFileError: the target file is missing or changed.
        StorageError: the record of what was tested can't be read.
    """
    with connect_read_only(workspace) as connection:
        values = connection.execute(
            "select metric, variant, model_id, value, documents, tokens from metric_values"
            " where problem = ?",
            [problem.name],
        ).fetchall()
        catalogue = connection.execute(
            "select metric, variant, family, parameters, direction, admissible, formula,"
            " description from metric_catalog"
        ).fetchall()
        built = built_tries(connection, problem.name)
        formats = connection.execute(
            "select distinct dtype, model_id from units where problem = ? and status = 'done'",
            [problem.name],
        ).fetchall()
    scores, source = load_target(problem, workspace)
    models = tuple(
        Model(spec.model_id, spec.full_id, spec.family, spec.parameters, series_of(spec))
        for spec in problem.ranked_models
        if spec.model_id in scores
    )
    models += _models_of_others(problem, workspace, others, scores, source)
    for lab in others:
        values += lab.values
        formats += [(dtype, m.model_id) for m in lab.models for dtype in m.dtypes]
    if len(models) < 3:
        raise TokenmartError(
            f"{problem.name}: {len(models)} models have a target score, 3 are needed; "
            f"run `tokenmart recall --problem {problem.asked}` or place the target file"
        )
    place = {model.model_id: index for index, model in enumerate(models)}
    grouped: dict[tuple[str, str], Floats] = {}
    for metric, variant, model_id, value, documents, tokens in values:
        column = grouped.setdefault((metric, variant), np.full((3, len(models)), np.nan))
        if model_id in place and value is not None:
            column[:, place[model_id]] = value, documents, tokens
    if not grouped and not ideas:
        of_table = problem.target is not None and problem.target.kind == "table"
        bring = "data fetch" if of_table else "extract"
        build = "tokenmart dbt run --select 'fqn:*'" if of_table else "tokenmart dbt build"
        raise TokenmartError(
            f"{problem.name}: the mart metric_values is empty; run "
            f"`tokenmart {bring} --problem {problem.asked}` and `{build}`"
        )
    described = {(row[0], row[1]): row for row in catalogue}
    columns = [_column(described.get(key), key, grouped[key]) for key in sorted(grouped)]
    of_metric = {row[0]: row for row in catalogue}
    for idea in ideas:
        if idea.metric in of_metric:
            raise TokenmartError(f"name {idea.metric!r}: a metric has this name; choose another")
    present = (*built, *ideas)
    besides = tested_besides(workspace, problem.name, present)
    return MetricTable(
        problem=problem.name,
        models=models,
        target=settled(np.array([scores[model.model_id] for model in models])),
        columns=(*(_column_of_try(idea, models, None, better) for idea in ideas), *columns),
        without_target=tuple(m.full_id for m in problem.ranked_models if m.model_id not in scores),
        target_source=source,
        dtypes={
            dtype: tuple(m.full_id for m in models if (dtype, m.model_id) in formats)
            for dtype in sorted({dtype for dtype, _ in formats})
        },
        tried=tuple(
            _column_of_try(entry, models, of_metric.get(entry.metric)) for entry in besides
        ),
        registered=preregistered_metrics(workspace, problem),
        baseline=problem.baseline,
        present=present,
        extracted=frozenset(model_id for _, model_id in formats),
        asked=problem.asked,
    )


def _models_of_others(
    problem: Ranked,
    workspace: Workspace,
    others: Sequence[OtherLab],
    scores: dict[str, float],
    source: dict[str, Any],
) -> tuple[Model, ...]:
    """Other labs' models that have a target; their scores are added to what is known."""
    if not others:
        return ()
    locked: dict[str, float] = {}
    if isinstance(problem.target, FileTarget):
        models = [spec.full_id for spec in problem.ranked_models]
        path = problem.target.path
        locked = read_locked_target(workspace, problem.name, path, models, some=True).scores
    found = []
    for lab in others:
        for model in lab.models:
            if model.full_id in locked:
                scores[model.model_id] = locked[model.full_id]
            elif model.model_id in lab.scores:
                scores[model.model_id], stderr, items = lab.scores[model.model_id]
                source["stderr"][model.model_id] = stderr
                source["items_per_model"][model.model_id] = items
            else:
                continue
            found.append(
                Model(model.model_id, model.full_id, model.family, model.parameters, model.kind)
            )
    source["others"] = {lab.name: lab.sha256 for lab in others}
    return tuple(found)


def _column(row: Any, key: tuple[str, str], found: Floats) -> MetricColumn:
    """A variant of the build; `found`: its values, and the documents and tokens they rest on."""
    if row is None:
        raise TokenmartError(
            f"metric {key[0]}/{key[1]} has values but no line in metric_catalog; "
            "describe it in its metric file and run `tokenmart dbt build`"
        )
    return MetricColumn(
        metric=row[0],
        variant=row[1],
        family=row[2],
        parameters=json.loads(row[3] or "{}"),
        direction="lower" if row[4] == "lower" else "higher",
        admissible=bool(row[5]),
        formula=row[6] or "",
        description=row[7] or "",
        values=found[0],
        documents=tuple(np.nan_to_num(found[1]).astype(int).tolist()),
        tokens=tuple(np.nan_to_num(found[2]).astype(int).tolist()),
    )


def _column_of_try(
    entry: Try, models: Sequence[Model], row: Any, better: Direction = "higher"
) -> MetricColumn:
    """The column of an idea, or of a variant of an earlier build; `row`: its metric's, if known."""
    variant = entry.kind == "variant"
    return MetricColumn(
        metric=entry.metric,
        variant=entry.variant,
        family=entry.kind,
        parameters={},
        direction="lower" if variant and row and row[4] == "lower" else better,
        admissible=variant and (row is None or bool(row[5])),
        formula=entry.definition,
        description="",
        values=np.array([entry.values.get(model.model_id, math.nan) for model in models]),
        kind=entry.kind,
    )


def load_target(problem: Ranked, workspace: Workspace) -> tuple[dict[str, float], dict[str, Any]]:
    """Target scores by model_id, and where they came from.

    Raises:
        TokenmartError: the problem has no target.
        LockedFileError: the target file is missing, malformed or changed.
    """
    if problem.target is None:
        raise TokenmartError(
            f"problem {problem.name} has no target: nothing to correlate with; add a target "
            "section to its problem file (`tokenmart sql` and `tokenmart extract` need none)"
        )
    if isinstance(problem.target, FileTarget):
        models = [spec.full_id for spec in problem.ranked_models]
        target = read_locked_target(
            workspace,
            problem.name,
            problem.target.path,
            models,
            asked=problem.asked,
            some=True,
        )
        scores = {
            spec.model_id: target.scores[spec.full_id]
            for spec in problem.ranked_models
            if spec.full_id in target.scores
        }
        path = problem.target.path.as_posix()
        return scores, {"kind": "file", "path": path, "sha256": target.sha256}
    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, score, stderr, items from downstream_scores"
            " where problem = ? and model_id in ? and task = 'overall' and score is not null",
            [problem.name, [model.model_id for model in problem.ranked_models]],
        ).fetchall()
    source = {
        "kind": problem.target.kind,
        "sha256": _scores_sha256(rows),
        "items_per_model": {row[0]: row[3] for row in rows},
        "stderr": {row[0]: row[2] for row in rows},
    }
    return {row[0]: float(row[1]) for row in rows}, source


def _scores_sha256(rows: Sequence[tuple[Any, ...]]) -> str:
    """One hash over measured scores, so that a second measurement doesn't go unnoticed."""
    lines = "".join(f"{row[0]} {float(row[1]):.12g}\n" for row in sorted(rows))
    return hashlib.sha256(lines.encode()).hexdigest()


def parts_reader(workspace: Workspace, table: MetricTable) -> PartsOf | None:
    """A function from a column to its parts; None where no build has made `metric_parts`.

    It gives None for ideas, whose numbers have no documents, and for variants of one document.
    """
    with connect_read_only(workspace) as connection:
        found = connection.execute(
            "select 1 from information_schema.tables where table_name = 'metric_parts'"
        ).fetchone()
    if found is None:
        return None

    def read(column: MetricColumn) -> DocumentParts | None:
        if column.kind != "variant":
            return None
        with connect_read_only(workspace) as connection:
            asked = [table.problem, column.metric, column.variant]
            rows = connection.execute(_PARTS, asked).fetchall()
        return _parts(table, column, rows)

    return read


def _parts(
    table: MetricTable, column: MetricColumn, rows: list[tuple[Any, ...]]
) -> DocumentParts | None:
    """Rows of the mart as oriented parts; None for fewer than two documents."""
    aggregation = column.parameters.get("aggregation", "micro")
    documents = {doc_id: place for place, doc_id in enumerate(sorted({row[1] for row in rows}))}
    if len(documents) < MINIMUM_DOCUMENTS or aggregation not in get_args(Aggregation):
        return None
    models = {model.model_id: place for place, model in enumerate(table.models)}
    parts = np.full((3, len(models), len(documents)), np.nan)
    for model_id, doc_id, *values in rows:
        if model_id in models:
            parts[:, models[model_id], documents[doc_id]] = [
                np.nan if value is None else value for value in values
            ]
    known = cast("Aggregation", aggregation)
    weight = parts[2] if np.isfinite(parts[2]).any() else None
    if column.direction == "lower":
        return DocumentParts(-parts[0], parts[1], _TURNED.get(known, known), weight)
    return DocumentParts(parts[0], parts[1], known, weight)
