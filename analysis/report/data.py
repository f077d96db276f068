"""What the report shows of a problem, read from the marts once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.ranking.loading import (
    lengths_read,
    load_table,
    load_target,
    models_by,
    nothing_built,
    outdated_note,
    records,
    remedy_without_target,
)
from analysis.ranking.results import BASELINES, Ranking, rank_metrics
from analysis.ranking.view import FEW_TOKENS, lengths_note
from analysis.statistics.resampling import DEFAULT_SPLITS
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision, versions
from warehouse.terminal import counted, listed

if TYPE_CHECKING:
    import duckdb

    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked, RankedModel

FIRST_METRICS = (*BASELINES, "longppl", "context_gain", "retrieval_gain")
"""First in the table of values; the others follow by name."""

FEWEST_SCORED = 3
"""Models with a target score; fewer have no correlation, and the report shows models alone."""

_PROFILES = f"""
    select
        model_id,
        condition,
        sqrt(greatest(position_from, 8) * position_to) as position,
        nll,
        gain,
        tokens
    from position_profile
    where problem = ? and nll is not null and tokens >= {FEW_TOKENS}
    order by model_id, position_from
"""
"""Means of few tokens are left out: one token would stretch the scale of a figure."""

_COSTS = """
    select
        model_id,
        count(*) filter (where complete) as conditions_complete,
        count(*) as conditions,
        sum(documents_missing + documents_failed) as units_missing,
        sum(tokens_processed) as tokens_processed,
        sum(tokens_scored) as tokens_scored,
        sum(seconds) as seconds,
        coalesce(max(peak_bytes), 0) as peak_bytes
    from coverage
    where problem = ?
    group by model_id
"""

_CUT = """
    with read as (
        select distinct model_id, doc_id, document_tokens as tokens, document_tokens_total as whole
        from units
        where problem = ? and status = 'done'
    )

    select
        (count(*) filter (where tokens < whole), count(*), sum(tokens), sum(whole)),
        model_id
    from read
    group by model_id
    having sum(tokens) < sum(whole)
"""


@dataclass(frozen=True)
class ReportData:
    """One problem's metrics, against its target where there is one.

    ranking: None without a target, which `no_target` explains.
    models: those of which something was extracted or built, in the order of their numbers: by
        target score, the highest first, without one as in the problem file.
    scores: target by model id.
    summary, conditions: what of the problem was run, in words. notes: what changes a conclusion.
    columns: metric, variant and direction; of each metric the variant with most values.
    cells: by metric, variant and model id: value, reason, tokens, documents and the documents of
        the model that has most.
    profiles: rows of `position_profile` with the model's family; `gain` is None in those of the
        whole document.
    costs: of each model, with `bytes_on_disk`.
    formulas: metric → formula.
    """

    problem: Ranked
    ranking: Ranking | None
    no_target: str
    models: tuple[RankedModel, ...]
    scores: dict[str, float]
    summary: str
    conditions: str
    notes: list[str]
    columns: list[dict[str, str]]
    cells: dict[tuple[str, str, str], dict[str, Any]]
    profiles: list[dict[str, Any]]
    costs: list[dict[str, Any]]
    formulas: dict[str, str]
    provenance: dict[str, Any]

    @property
    def numbers(self) -> dict[str, int]:
        """Model id → number of the model on the page, from 1."""
        return {model.model_id: place for place, model in enumerate(self.models, start=1)}


def gather(problem: Ranked, workspace: Workspace, seed: int) -> ReportData:
    """Read and rank.

    Raises:
        TokenmartError: nothing was built.
        LockedFileError: the target file is missing or changed.
    """
    scores = load_target(problem, workspace)[0] if problem.target else {}
    ranking = None
    if len(scores) >= FEWEST_SCORED:
        table = load_table(problem, workspace)
        ranking = rank_metrics(table, seed, splits=DEFAULT_SPLITS)
    with connect_read_only(workspace) as connection:
        cells = _cells(connection, problem.name)
        models = _models(connection, problem, scores, cells)
        if not models:
            raise nothing_built(problem)
        summary, conditions = _summary(connection, problem, models)
        of_id = {model.model_id: model for model in models}
        catalogue = records(
            connection, "select metric, variant, direction, formula from metric_catalog"
        )
        direction = {(row["metric"], row["variant"]): row["direction"] for row in catalogue}
        columns = _columns(cells, of_id)
        return ReportData(
            problem=problem,
            ranking=ranking,
            no_target=_no_target(problem, len(scores)),
            models=models,
            scores=scores,
            summary=summary,
            conditions=conditions,
            notes=_notes(connection, problem, workspace, models),
            columns=[
                {"metric": name[0], "variant": name[1], "direction": direction.get(name, "")}
                for name in columns
            ],
            cells=cells,
            profiles=[
                row | {"family": of_id[row["model_id"]].family}
                for row in records(connection, _PROFILES, [problem.name])
                if row["model_id"] in of_id
            ],
            costs=_costs(connection, problem.name, models, workspace),
            formulas={
                row["metric"]: row["formula"]
                for row in sorted(catalogue, key=lambda row: row["metric"])
                if row["formula"] and row["metric"] in dict(columns)
            },
            provenance={
                **code_revision(),
                "versions": versions(("tokenmart", "duckdb", "numpy", "scikit-learn")),
                "seed": seed,
            },
        )


def short_name(full_id: str) -> str:
    """A model's name without its organisation."""
    return full_id.rsplit("/", 1)[-1]


def _cells(
    connection: duckdb.DuckDBPyConnection, problem: str
) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = records(
        connection,
        "select metric, variant, model_id, case when isfinite(value) then value end as value,"
        " coalesce(reason, '') as reason, coalesce(tokens, 0) as tokens,"
        " coalesce(documents, 0) as documents,"
        " coalesce(max(documents) over (partition by metric, variant), 0) as of_documents"
        " from metric_values where problem = ?",
        [problem],
    )
    return {(row["metric"], row["variant"], row["model_id"]): row for row in rows}


def _models(
    connection: duckdb.DuckDBPyConnection,
    problem: Ranked,
    scores: dict[str, float],
    cells: dict[tuple[str, str, str], dict[str, Any]],
) -> tuple[RankedModel, ...]:
    units = connection.execute(
        "select distinct model_id from units where problem = ? and status = 'done'", [problem.name]
    ).fetchall()
    there = {row[0] for row in units}
    there |= {key[2] for key, cell in cells.items() if cell["value"] is not None}
    models = [model for model in problem.ranked_models if model.model_id in there]
    return tuple(sorted(models, key=lambda m: -scores.get(m.model_id, float("-inf"))))


def _columns(
    cells: dict[tuple[str, str, str], dict[str, Any]], models: dict[str, RankedModel]
) -> list[tuple[str, str]]:
    """Of each metric the variant with values for most of these models."""
    found = Counter(
        key[:2] for key, cell in cells.items() if cell["value"] is not None and key[2] in models
    )
    best: dict[str, str] = {}
    for metric, variant in sorted(
        {key[:2] for key in cells}, key=lambda name: (-found[name], name)
    ):
        best.setdefault(metric, variant)

    def order(name: tuple[str, str]) -> tuple[int, str]:
        first = name[0] in FIRST_METRICS
        return FIRST_METRICS.index(name[0]) if first else len(FIRST_METRICS), name[0]

    return sorted(best.items(), key=order)


def _no_target(problem: Ranked, scored: int) -> str:
    if problem.target is None:
        return "the problem file names no target"
    return (
        f"{scored} of {counted(len(problem.ranked_models), 'model')} have a score, "
        f"{FEWEST_SCORED} are needed: {remedy_without_target(problem)}"
    )


def _summary(
    connection: duckdb.DuckDBPyConnection, problem: Ranked, models: tuple[RankedModel, ...]
) -> tuple[str, str]:
    rows = connection.execute(
        "select condition, max(documents_done), sum(tokens_scored) from coverage"
        " where problem = ? group by condition order by condition",
        [problem.name],
    ).fetchall()
    words = [f"{len(models)} of {counted(len(problem.ranked_models), 'model')}"]
    if documents := max((row[1] or 0 for row in rows), default=0):
        tokens = sum(row[2] or 0 for row in rows)
        words += [counted(documents, "document"), f"{tokens:,} tokens scored"]
    return ", ".join(words), ", ".join(row[0] for row in rows)


def _notes(
    connection: duckdb.DuckDBPyConnection,
    problem: Ranked,
    workspace: Workspace,
    models: tuple[RankedModel, ...],
) -> list[str]:
    """How much the models read of documents that were cut, and warnings."""
    cut = connection.execute(_CUT, [problem.name]).fetchall()
    found = [
        f"Cut: {listed(ids)}: {short} of {counted(documents, 'document')}, {tokens:,} of {whole:,} "
        "tokens read."
        for (short, documents, tokens, whole), ids in models_by(cut, models).items()
    ]
    read = models_by(lengths_read(connection, problem), models)
    if len(read) > 1:
        found.append(f"Warning: {lengths_note(read, problem.argument)}.")
    if outdated := outdated_note(problem, workspace):
        found.append(f"Warning: {outdated}.")
    return found


def _costs(
    connection: duckdb.DuckDBPyConnection,
    problem: str,
    models: tuple[RankedModel, ...],
    workspace: Workspace,
) -> list[dict[str, Any]]:
    found = {row["model_id"]: row for row in records(connection, _COSTS, [problem])}
    tokens = workspace.tokens / f"problem={problem}"
    return [
        found[model.model_id]
        | {
            "model": short_name(model.full_id),
            "bytes_on_disk": sum(
                path.stat().st_size
                for path in tokens.glob(f"model_id={model.model_id}/*/*.parquet")
            ),
        }
        for model in models
        if model.model_id in found
    ]
