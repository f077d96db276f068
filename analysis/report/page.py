"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.ranking.view import EXPLANATION, answer_lines, full_notes, leading
from analysis.report import figures
from analysis.report.data import ReportData
from analysis.report.drawing import Chart, html_pages, page_svg
from analysis.statistics.correlations import Interval
from warehouse.progress import Progress

if TYPE_CHECKING:
    from markupsafe import Markup

FIRST_ROWS = 10
"""Of the leaderboard; the others can be unfolded."""


def report_page(data: ReportData, charts: dict[str, Chart], viewer: str, progress: Progress) -> str:
    """The whole page.

    Args:
        data: of the problem.
        charts: those of `report_charts`.
        viewer: name of the file with the token viewer next to the page; empty without one.
        progress: called for each chart.
    """
    drawn: dict[str, Markup] = {}
    for name, chart in charts.items():
        progress(f"figures: {name}", 1)
        drawn[name] = page_svg(chart, name.replace("_", " "))
    pages = html_pages()
    pages.filters["ends"] = _ends
    ranking = data.ranking
    return pages.get_template("report.html.j2").render(
        data=data,
        ranking=ranking,
        charts=drawn,
        viewer=viewer,
        family_keys=figures.family_colours(model.family for model in data.models),
        answers=answer_lines(ranking) if ranking else [],
        notes=full_notes(ranking) if ranking else [],
        explanation=EXPLANATION,
        MOST_NUMBERED=figures.MOST_NUMBERED,
        best=ranking and (ranking.best or ranking.rows[0]),
        first_rows=leading(ranking, ranking.rows, FIRST_ROWS) if ranking else [],
    )


def report_charts(data: ReportData) -> dict[str, Chart]:
    """Name → chart, of those that have something to show."""
    numbers = data.numbers
    colours = figures.family_colours(model.family for model in data.models)
    found: dict[str, Chart] = {}
    if ranking := data.ranking:
        best = ranking.best or ranking.rows[0]
        for name, row in (("best_metric", best), ("baseline", ranking.baseline)):
            if row is not None and (name == "best_metric" or row is not best):
                found[name] = figures.scatter_figure(
                    ranking.table, row, numbers, colours, ranking.seed
                )
    along: dict[str, list[dict[str, Any]]] = {}
    for band in data.profiles:
        gain = band["gain"] is not None
        along.setdefault(f"gain_profile_{band['condition']}" if gain else "nll_profile", []).append(
            band
        )
    for name, bands in sorted(along.items(), key=lambda item: item[0] != "nll_profile"):
        if len({band["position"] for band in bands}) > 1:
            what = "nll" if name == "nll_profile" else "gain"
            found[name] = figures.profile_figure(bands, what, numbers, colours)
    return found


def _ends(interval: Interval) -> dict[str, Any]:
    """Where an interval of rho begins and ends on an axis from -1 to 1, in percent."""
    return {"low": 50 + 50 * interval.low, "high": 50 + 50 * interval.high}
