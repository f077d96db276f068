"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.ranking.loading import (
    load_table,
    load_target,
    nothing_built,
    records,
    remedy_without_target,
    state_of,
)
from analysis.ranking.results import BASELINES, Ranking, rank_metrics
from analysis.ranking.signature import signature, signature_of_problem
from analysis.ranking.view import FEW_TOKENS, answer_lines, full_notes, leading, notes
from analysis.report import figures
from analysis.report.drawing import Chart, html_pages, page_svg
from analysis.statistics.resampling import DEFAULT_SPLITS
from warehouse.sql.audits import audit_line
from warehouse.sql.connection import connect_read_only
from warehouse.terminal import counted

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked, RankedModel
    from warehouse.sql.problem_state import BuildState

FIRST_METRICS = (*BASELINES, "longppl", "context_gain", "retrieval_gain")
"""First in the table of values; the others follow by name."""

FEWEST_SCORED = 3
"""Models with a target score; fewer have no correlation, and the report shows models alone."""

FIRST_ROWS = 10
"""Of the leaderboard; the others can be unfolded."""

_THERE = """
    select model_id from units where problem = $problem and status = 'done'
    union
    select model_id from metric_values where problem = $problem and isfinite(value)
"""

_PROFILES = f"""
    select
        model_id,
        condition,
        sqrt(greatest(position_from, 8) * position_to) as position,
        nll,
        gain,
        tokens
    from position_profile
    where problem = $problem and nll is not null and tokens >= {FEW_TOKENS}
    order by model_id, position_from
"""
"""Means of few tokens are left out: one token would stretch the scale of a figure."""

_CELLS = """
    with cells as (
        select
            metric,
            variant,
            model_id,
            case when isfinite(value) then value end as value,
            coalesce(reason, '') as reason,
            coalesce(tokens, 0) as tokens,
            coalesce(documents, 0) as documents,
            coalesce(max(documents) over variants, 0) as of_documents,
            count(*) filter (isfinite(value) and model_id in $models) over variants as models
        from metric_values
        where problem = $problem
        window variants as (partition by metric, variant)
    )

    select cells.*, coalesce(direction, '') as direction, coalesce(formula, '') as formula
    from cells
    left join metric_catalog using (metric, variant)
    qualify variant = first(variant) over (partition by metric order by models desc, variant)
"""
"""Of each metric the variant with values for most of the models."""

_COSTS = """
    select
        model_id,
        sum(tokens_processed)::bigint as tokens_processed,
        sum(tokens_scored)::bigint as tokens_scored,
        sum(seconds) as seconds,
        coalesce(max(peak_bytes), 0) as peak_bytes
    from coverage
    where problem = $problem
    group by model_id
"""

_SUMMARY = """
    select
        coalesce(max(documents_done), 0) as documents,
        coalesce(sum(tokens_scored), 0)::bigint as tokens,
        coalesce(string_agg(distinct condition, ', ' order by condition), '') as conditions
    from coverage
    where problem = $problem
"""


@dataclass(frozen=True)
class ReportData:
    """One problem's metrics, against its target where there is one.

    ranking: None without a target, which `no_target` explains.
    models: those of which something was extracted or built, in the order of their numbers: by
        target score, the highest first, without one as in the problem file.
    scores: target by model id.
    summary: documents, tokens and conditions that were run.
    costs: model id → tokens, seconds of computing and peak bytes of memory over all conditions.
    cells: (metric, model id) → a row of `_CELLS`; columns: one of them for each metric.
    profiles: rows of `position_profile` with the model's family; `gain` is None in those of the
        whole document.
    state: what the values were made from, and what is there now.
    audit: what audits say of the rows; empty for nothing.
    """

    problem: Ranked
    ranking: Ranking | None
    no_target: str
    models: tuple[RankedModel, ...]
    scores: dict[str, float]
    summary: dict[str, Any]
    costs: dict[str, dict[str, Any]]
    columns: list[dict[str, Any]]
    cells: dict[tuple[str, str], dict[str, Any]]
    profiles: list[dict[str, Any]]
    state: BuildState
    audit: str


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
    no_target = "the problem file names no target"
    if problem.target is not None:
        no_target = (
            f"{len(scores)} of {counted(len(problem.ranked_models), 'model')} have a score, "
            f"{FEWEST_SCORED} are needed: {remedy_without_target(problem)}"
        )
    with connect_read_only(workspace) as connection:

        def read(sql: str, **more: Any) -> list[dict[str, Any]]:
            return records(connection, sql, {"problem": problem.name} | more)

        extracted = {row["model_id"] for row in read(_THERE)}
        models = [model for model in problem.ranked_models if model.model_id in extracted]
        if not models:
            raise nothing_built(problem)
        models.sort(key=lambda model: -scores.get(model.model_id, float("-inf")))
        family = {model.model_id: model.family for model in models}
        cells = {(row["metric"], row["model_id"]): row for row in read(_CELLS, models=[*family])}
        first = {metric: place for place, metric in enumerate(FIRST_METRICS)}
        columns = {row["metric"]: row for row in cells.values()}
        profiles = [row for row in read(_PROFILES) if row["model_id"] in family]
        return ReportData(
            problem=problem,
            ranking=ranking,
            no_target=no_target,
            models=tuple(models),
            scores=scores,
            summary=read(_SUMMARY)[0],
            costs={row["model_id"]: row for row in read(_COSTS)},
            columns=[columns[n] for n in sorted(columns, key=lambda n: (first.get(n, 99), n))],
            cells=cells,
            profiles=[row | {"family": family[row["model_id"]]} for row in profiles],
            state=ranking.table.state if ranking else state_of(problem, workspace),
            audit=audit_line(workspace, problem.name),
        )


def report_page(data: ReportData, viewer: str = "") -> str:
    """The whole page.

    Args:
        data: of the problem.
        viewer: name of the file with the token viewer next to the page; empty without one.
    """
    ranking = data.ranking
    best = (ranking.best or ranking.rows[0]) if ranking else None
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
            best=best,
            signature=signature(ranking.table, best.column)
            if ranking and best
            else signature_of_problem(data.problem.name, data.state),
            first_rows=leading(ranking, ranking.rows, FIRST_ROWS) if ranking else [],
        )
    )


def report_charts(data: ReportData) -> dict[str, Chart]:
    """Name → chart, of those that have something to show."""
    numbers = {model.model_id: place for place, model in enumerate(data.models, start=1)}
    colours = figures.family_colours(model.family for model in data.models)
    charts: dict[str, Chart] = {}
    if ranking := data.ranking:
        best = ranking.best or ranking.rows[0]
        for name, row in (("best_metric", best), ("baseline", ranking.baseline)):
            if row is None or not row.column.present.any():
                continue
            if name == "best_metric" or row is not best:
                charts[name] = figures.scatter_figure(
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
            charts[name] = figures.profile_figure(bands, what, numbers, colours)
    return charts
