"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from analysis.report import figures
from analysis.report.data import ReportData
from analysis.report.formats import FILTERS
from analysis.report.palette import ROLES, family_colours, variable_of
from analysis.report.svg import page_svg
from analysis.statistics import LEVEL, SAME_RANKING, STABLE_SHARE
from analysis.templates import environment
from warehouse.progress import Progress

WIDE, HALF, PHONE = 700, 380, 330

Draw = Callable[[int], figures.Chart]


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


@dataclass(frozen=True)
class Drawings:
    """Every figure of the page; None where there is nothing to draw."""

    leaderboard: Drawing
    baseline: Drawing | None
    best: Drawing | None
    nll: Drawing | None
    gain: Drawing | None
    metric_correlations: Drawing


def report_page(data: ReportData, progress: Progress) -> str:
    """The whole page; `progress` is told of each of the six figures."""
    pages = environment("analysis.report", escape_html=True)
    pages.filters.update(FILTERS)
    return pages.get_template("report.html.j2").render(
        data=data,
        selection=data.selection,
        drawings=_drawings(data, progress),
        family_keys=_family_keys(data),
        colour_roles=ROLES,
        LEVEL=LEVEL,
        SAME_RANKING=SAME_RANKING,
        STABLE_SHARE=STABLE_SHARE,
    )


def figure_files(data: ReportData) -> dict[str, figures.Chart]:
    """File name (without ending) → chart, for `--figures`."""
    found = {
        "leaderboard": figures.leaderboard_figure(data, WIDE),
        "best_metric": figures.scatter_figure(data, data.best, WIDE),
        "agreement": figures.metric_correlations_figure(data.metric_correlations, WIDE),
    }
    if data.baseline is not None:
        found["baseline"] = figures.scatter_figure(data, data.baseline, WIDE)
    if data.profiles:
        found["nll_profile"] = figures.profile_figure(data, data.profiles, "nll", WIDE)
    if data.gains:
        found["gain_profile"] = figures.profile_figure(data, data.gains, "gain", WIDE)
    return found


def _drawings(data: ReportData, progress: Progress) -> Drawings:
    def drawing(name: str, title: str, draw: Draw, wide: int) -> Drawing:
        progress(f"figures: {name}", 1)
        return Drawing(
            wide=Markup(page_svg(draw(wide), f"{name}-title-wide", title)),
            narrow=Markup(page_svg(draw(PHONE), f"{name}-title-narrow", title)),
        )

    baseline, best = data.baseline, data.best
    return Drawings(
        leaderboard=drawing(
            "leaderboard",
            "Spearman correlation of each metric's best variants with the target",
            lambda width: figures.leaderboard_figure(data, width),
            620,
        ),
        baseline=None
        if baseline is None
        else drawing(
            "baseline",
            f"{baseline.column.name} against the target, one point per model",
            lambda width: figures.scatter_figure(data, baseline, width),
            HALF,
        ),
        best=None
        if best is baseline
        else drawing(
            "best",
            f"{best.column.name} against the target, one point per model",
            lambda width: figures.scatter_figure(data, best, width),
            HALF,
        ),
        nll=drawing(
            "nll",
            "Surprise after the whole document so far: mean per position, one line per model",
            lambda width: figures.profile_figure(data, data.profiles, "nll", width),
            HALF,
        )
        if data.profiles
        else None,
        gain=drawing(
            "gain",
            "What the far context adds: mean per position, one line per model",
            lambda width: figures.profile_figure(data, data.gains, "gain", width),
            HALF,
        )
        if data.gains
        else None,
        metric_correlations=drawing(
            "agreement",
            "Spearman between metrics, each by its best variant, and with the target",
            lambda width: figures.metric_correlations_figure(data.metric_correlations, width),
            560,
        ),
    )


def _family_keys(data: ReportData) -> list[FamilyKey]:
    colours = family_colours(data.table.families)
    return [
        FamilyKey(family, figures.SHAPES[index % len(figures.SHAPES)], variable_of(colour))
        for index, (family, colour) in enumerate(colours.items())
    ]
