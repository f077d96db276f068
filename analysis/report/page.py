"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from analysis.ranking.answers import exploratory_line
from analysis.ranking.registered import LEAD_LEVEL
from analysis.ranking.selection_view import answer_lines
from analysis.report import figures
from analysis.report.data import ReportData
from analysis.report.formats import FILTERS
from analysis.report.palette import ROLES, family_colours, variable_of
from analysis.report.svg import page_svg
from analysis.report.target_figures import depth_figure
from analysis.templates import environment
from warehouse.progress import Progress

WIDE, HALF, PHONE = 700, 380, 330


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its file and in the templates, what it shows, its width on the page."""

    name: str
    title: str
    width: int
    draw: Callable[[int], figures.Chart]


@dataclass(frozen=True)
class Drawing:
    """A figure drawn twice, for wide columns and for phones; only one is shown."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True)
class FamilyKey:
    """The shape and colour (a CSS variable) by which a model family is known in the figures."""

    family: str
    shape: str
    colour: str


def report_page(data: ReportData, progress: Progress) -> str:
    """The whole page; `progress` is told of each figure."""
    pages = environment("analysis.report", escape_html=True)
    pages.filters.update(FILTERS)
    return pages.get_template("report.html.j2").render(
        data=data,
        selection=data.selection,
        drawings=_drawings(data, progress),
        family_keys=_family_keys(data),
        colour_roles=ROLES,
        answers=answer_lines(data.selection) if data.selection else [],
        exploratory=exploratory_line(data.board.registered),
        LEAD_LEVEL=LEAD_LEVEL,
    )


def figure_files(data: ReportData) -> dict[str, figures.Chart]:
    """File name (without ending) → chart, for `--figures`."""
    return {figure.name: figure.draw(WIDE) for figure in _figures(data)}


def _drawings(data: ReportData, progress: Progress) -> dict[str, Drawing]:
    found = {}
    for figure in _figures(data):
        if figure.name == "best_metric" and data.best is data.baseline:
            continue  # the page shows the two side by side
        progress(f"figures: {figure.name}", 1)
        wide, narrow = (
            Markup(page_svg(figure.draw(width), f"{figure.name}-title-{column}", figure.title))
            for width, column in ((figure.width, "wide"), (PHONE, "narrow"))
        )
        found[figure.name] = Drawing(wide, narrow)
    return found


def _figures(data: ReportData) -> list[Figure]:
    """Every figure that has something to show."""
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
    for name, row in (("baseline", data.baseline), ("best_metric", data.best)):
        if row is not None:
            title = f"{row.column.name} against the target, one point per model"
            draw_points = partial(figures.scatter_figure, data, row)
            found.append(Figure(name, title, HALF, draw_points))
    along = ": mean per position, one line per model"
    if data.profiles:
        title = f"Surprise after the whole document so far{along}"
        draw_lines = partial(figures.profile_figure, data, data.profiles, "nll")
        found.append(Figure("nll_profile", title, HALF, draw_lines))
    for condition, bands in data.gains.items():
        title = f"What the far context adds ({condition}){along}"
        draw_lines = partial(figures.profile_figure, data, bands, "gain")
        found.append(Figure(f"gain_profile_{condition}", title, HALF, draw_lines))
    if data.depths:
        title = "Target by length and depth: mean score of the tasks, one panel per model"
        found.append(Figure("target", title, WIDE, partial(depth_figure, data.depths)))
    return found


def _family_keys(data: ReportData) -> list[FamilyKey]:
    colours = family_colours(data.table.families)
    return [
        FamilyKey(family, figures.SHAPES[index % len(figures.SHAPES)], variable_of(colour))
        for index, (family, colour) in enumerate(colours.items())
    ]
