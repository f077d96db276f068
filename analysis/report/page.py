"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.ranking.results import LEAD_LEVEL
from analysis.ranking.view import answer_lines, exploratory_line
from analysis.report import figures
from analysis.report.data import ReportData
from analysis.report.drawing import (
    HALF,
    WIDE,
    Chart,
    Drawing,
    drawn,
    family_colours,
    html_pages,
    variable_of,
)
from analysis.report.overview import Overview
from warehouse.progress import Progress


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its file and in the templates, what it shows, its width on the page."""

    name: str
    title: str
    width: int
    draw: Callable[[int], Chart]


def report_page(overview: Overview, data: ReportData | None, progress: Progress) -> str:
    """The whole page; without `data`, models and metrics only."""
    pages = html_pages()
    return pages.get_template("report.html.j2").render(
        overview=overview,
        data=data,
        ranking=data.ranking if data else None,
        drawings=_drawings(overview, data, progress),
        family_keys=_family_keys(overview),
        answers=answer_lines(data.ranking) if data else [],
        exploratory=exploratory_line(data.ranking.registered) if data else "",
        LEAD_LEVEL=LEAD_LEVEL,
    )


def figure_files(overview: Overview, data: ReportData | None) -> dict[str, Chart]:
    """File name (without ending) → chart, for `--figures`."""
    return {figure.name: figure.draw(WIDE) for figure in _figures(overview, data)}


def _drawings(
    overview: Overview, data: ReportData | None, progress: Progress
) -> dict[str, Drawing]:
    found = {}
    for figure in _figures(overview, data):
        if data and figure.name == "best_metric" and data.best is data.ranking.baseline:
            continue  # the page shows the two side by side
        progress(f"figures: {figure.name}", 1)
        name = f"{figure.name}-title"
        found[figure.name] = drawn(figure.draw, figure.width, name, figure.title)
    return found


def _figures(overview: Overview, data: ReportData | None) -> list[Figure]:
    """Every figure that has something to show."""
    found = _target_figures(overview.families, data) if data else []
    along = ": mean per position, one line per model"
    draw = partial(figures.profile_figure, overview.families)
    if overview.profiles:
        title = f"NLL after the whole document so far{along}"
        found.append(Figure("nll_profile", title, HALF, partial(draw, overview.profiles, "nll")))
    for condition, bands in overview.gains.items():
        title = f"What the far context adds ({condition}){along}"
        name = f"gain_profile_{condition}"
        found.append(Figure(name, title, HALF, partial(draw, bands, "gain")))
    return found


def _target_figures(families: Sequence[str], data: ReportData) -> list[Figure]:
    found = [
        Figure(
            "leaderboard",
            "Spearman correlation of each metric's best variants with the target",
            620,
            partial(figures.leaderboard_figure, data),
        ),
        Figure(
            "agreement",
            "Spearman between metrics, each by its best variant, and with the target",
            560,
            partial(figures.metric_correlations_figure, data.metric_correlations),
        ),
    ]
    for name, row in (("baseline", data.ranking.baseline), ("best_metric", data.best)):
        if row is not None:
            title = f"{row.column.name} against the target, one point per model"
            draw_points = partial(figures.scatter_figure, families, data, row)
            found.append(Figure(name, title, HALF, draw_points))
    if data.depths:
        title = "Target by length and depth: mean score of the tasks, one panel per model"
        found.append(Figure("target", title, WIDE, partial(figures.depth_figure, data.depths)))
    return found


def _family_keys(overview: Overview) -> list[tuple[str, str, str]]:
    """Each model family, with the shape and colour (a CSS variable) it has in the figures."""
    colours = family_colours(overview.families)
    return [
        (family, figures.SHAPES[index % len(figures.SHAPES)], variable_of(colour))
        for index, (family, colour) in enumerate(colours.items())
    ]
