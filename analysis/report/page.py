"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.ranking.loading import (
    load_table,
    load_target,
    nothing_built,
    records,
    remedy_without_target,
)
from analysis.ranking.results import BASELINES, Ranking, rank_metrics
from analysis.ranking.view import FEW_TOKENS, answer_lines, full_notes, leading, notes
from analysis.report import figures
from analysis.report.drawing import Chart, html_pages, page_svg
from analysis.statistics.resampling import DEFAULT_SPLITS
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision, versions
from warehouse.terminal import counted

if TYPE_CHECKING:
    import duckdb

    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked, RankedModel

FIRST_METRICS = (*BASELINES, "longppl", "context_gain", "retrieval_gain")
"""First in the table of values; the others follow by name."""

FEWEST_SCORED = 3
"""Models with a target score; fewer have no correlation, and the report shows models alone."""

FIRST_ROWS = 10
"""Of the leaderboard; the others can be unfolded."""

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

_CELLS = """
    select
        metric,
        variant,
        model_id,
        case when isfinite(value) then value end as value,
        coalesce(reason, '') as reason,
        coalesce(tokens, 0) as tokens,
        coalesce(documents, 0) as documents,
        coalesce(max(documents) over (partition by metric, variant), 0) as of_documents
    from metric_values
    where problem = ?
"""

_COSTS = """
    select
        model_id,
        sum(tokens_processed)::bigint as tokens_processed,
        sum(tokens_scored)::bigint as tokens_scored,
        sum(seconds) as seconds,
        coalesce(max(peak_bytes), 0) as peak_bytes
    from coverage
    where problem = ?
    group by model_id
"""

_SUMMARY = """
    select
        coalesce(max(documents_done), 0) as documents,
        coalesce(sum(tokens_scored), 0)::bigint as tokens,
        coalesce(string_agg(distinct condition, ', ' order by condition), '') as conditions
    from coverage
    where problem = ?
"""

Cells = dict[tuple[str, str, str], dict[str, Any]]
"""Value, reason, tokens, documents and the documents of the model that has most; by metric,
variant and model id."""


@dataclass(frozen=True)
class ReportData:
    """One problem's metrics, against its target where there is one.

    ranking: None without a target, which `no_target` explains.
    models: those of which something was extracted or built, in the order of their numbers: by
        target score, the highest first, without one as in the problem file.
    scores: target by model id.
    summary: documents, tokens and conditions that were run.
    costs: model id → tokens, seconds of computing and peak bytes of memory over all conditions.
    columns: metric, variant, direction and formula; of each metric the variant with most values.
    profiles: rows of `position_profile` with the model's family; `gain` is None in those of the
        whole document.
    """

    problem: Ranked
    ranking: Ranking | None
    no_target: str
    models: tuple[RankedModel, ...]
    scores: dict[str, float]
    summary: dict[str, Any]
    costs: dict[str, dict[str, Any]]
    columns: list[dict[str, str]]
    cells: Cells
    profiles: list[dict[str, Any]]
    provenance: dict[str, Any]


def gather(problem: Ranked, workspace: Workspace, seed: int) -> ReportData:
    """Read and rank.

    Raises:
        TokenmartError: nothing was built.
        LockedFileError: the target file is missing or changed.
    """
    scores = load_target(problem, workspace)[0] if problem.target else {}
    ranking = None
    if len(scores) >= FEWEST_SCORED:
        ranking = rank_metrics(load_table(problem, workspace), seed, splits=DEFAULT_SPLITS)
    with connect_read_only(workspace) as connection:
        rows = records(connection, _CELLS, [problem.name])
        cells = {(row["metric"], row["variant"], row["model_id"]): row for row in rows}
        models = _models(connection, problem, scores, cells)
        if not models:
            raise nothing_built(problem)
        [summary] = records(connection, _SUMMARY, [problem.name])
        family = {model.model_id: model.family for model in models}
        return ReportData(
            problem=problem,
            ranking=ranking,
            no_target=_no_target(problem, len(scores)),
            models=models,
            scores=scores,
            summary=summary,
            costs={row["model_id"]: row for row in records(connection, _COSTS, [problem.name])},
            columns=_columns(connection, cells, family),
            cells=cells,
            profiles=[
                row | {"family": family[row["model_id"]]}
                for row in records(connection, _PROFILES, [problem.name])
                if row["model_id"] in family
            ],
            provenance={
                **code_revision(),
                "versions": versions(("tokenmart", "duckdb", "numpy", "scikit-learn")),
                "seed": seed,
            },
        )


def report_page(data: ReportData, viewer: str = "") -> str:
    """The whole page.

    Args:
        data: of the problem.
        viewer: name of the file with the token viewer next to the page; empty without one.
    """
    ranking = data.ranking
    charts = report_charts(data)
    drawn = {name: page_svg(chart, name.replace("_", " ")) for name, chart in charts.items()}
    return (
        html_pages()
        .get_template("report.html.j2")
        .render(
            data=data,
            ranking=ranking,
            charts=drawn,
            viewer=viewer,
            family_keys=figures.family_colours(model.family for model in data.models),
            answers=answer_lines(ranking) if ranking else [],
            warnings=notes(ranking, ranking.rows).values() if ranking else [],
            notes=full_notes(ranking) if ranking else [],
            MOST_NUMBERED=figures.MOST_NUMBERED,
            best=ranking and (ranking.best or ranking.rows[0]),
            first_rows=leading(ranking, ranking.rows, FIRST_ROWS) if ranking else [],
        )
    )


def report_charts(data: ReportData) -> dict[str, Chart]:
    """Name → chart, of those that have something to show."""
    numbers = {model.model_id: place for place, model in enumerate(data.models, start=1)}
    colours = figures.family_colours(model.family for model in data.models)
    found: dict[str, Chart] = {}
    if ranking := data.ranking:
        best = ranking.best or ranking.rows[0]
        for name, row in (("best_metric", best), ("baseline", ranking.baseline)):
            if row is None or not row.column.present.any():
                continue
            if name == "best_metric" or row is not best:
                found[name] = figures.scatter_figure(
                    ranking.table, row, numbers, colours, ranking.seed
                )
    along: dict[str, list[dict[str, Any]]] = {"nll_profile": []}
    for band in data.profiles:
        gain = band["gain"] is not None
        name = f"gain_profile_{band['condition']}" if gain else "nll_profile"
        along.setdefault(name, []).append(band)
    for name, bands in along.items():
        if len({band["position"] for band in bands}) > 1:
            what = "nll" if name == "nll_profile" else "gain"
            found[name] = figures.profile_figure(bands, what, numbers, colours)
    return found


def _models(
    connection: duckdb.DuckDBPyConnection, problem: Ranked, scores: dict[str, float], cells: Cells
) -> tuple[RankedModel, ...]:
    units = connection.execute(
        "select distinct model_id from units where problem = ? and status = 'done'", [problem.name]
    ).fetchall()
    there = {row[0] for row in units}
    there |= {key[2] for key, cell in cells.items() if cell["value"] is not None}
    models = [model for model in problem.ranked_models if model.model_id in there]
    return tuple(sorted(models, key=lambda m: -scores.get(m.model_id, float("-inf"))))


def _columns(
    connection: duckdb.DuckDBPyConnection, cells: Cells, models: dict[str, str]
) -> list[dict[str, str]]:
    """Of each metric the variant with values for most of these models."""
    catalogue = records(
        connection, "select metric, variant, direction, formula from metric_catalog"
    )
    described = {(row["metric"], row["variant"]): row for row in catalogue}
    found = Counter(
        key[:2] for key, cell in cells.items() if cell["value"] is not None and key[2] in models
    )
    best: dict[str, str] = {}
    for metric, variant in sorted({key[:2] for key in cells}, key=lambda n: (-found[n], n)):
        best.setdefault(metric, variant)
    first = {metric: place for place, metric in enumerate(FIRST_METRICS)}
    return [
        {"metric": name[0], "variant": name[1], "direction": "", "formula": ""}
        | described.get(name, {})
        for name in sorted(best.items(), key=lambda n: (first.get(n[0], len(first)), n[0]))
    ]


def _no_target(problem: Ranked, scored: int) -> str:
    if problem.target is None:
        return "the problem file names no target"
    return (
        f"{scored} of {counted(len(problem.ranked_models), 'model')} have a score, "
        f"{FEWEST_SCORED} are needed: {remedy_without_target(problem)}"
    )
