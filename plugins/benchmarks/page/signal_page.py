"""Render the page of a benchmark table: curves, signal statistics, decision accuracy by stage."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from analysis.report.drawing import CATEGORIES, html_pages, page_svg
from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS
from plugins.benchmarks.page.signal_data import DecisionCell, SignalData, SignalRow
from plugins.benchmarks.page.signal_figures import curves_figure, decisions_figure
from warehouse.progress import Progress

WIDE = 860
FIRST_ROWS = 60
"""Number of visible rows of the signal table; the others can be unfolded."""


def signal_page(data: SignalData, progress: Progress) -> str:
    """Render the page; `progress` is called for each panel and for both heat maps."""
    pages = html_pages("plugins.benchmarks.page")
    panels = {}
    for curves in data.curves:
        progress(f"curves: {curves.benchmark}", 1)
        figure = curves_figure(curves, data.shown_runs, data.unit)
        title = f"{curves.benchmark}: score over training"
        panels[curves.benchmark] = page_svg(figure, title)
    progress("decisions", 1)
    return pages.get_template("signal.html.j2").render(
        data=data,
        panels=panels,
        keys=[
            (run, CATEGORIES[index % len(CATEGORIES)]) for index, run in enumerate(data.shown_runs)
        ],
        decisions=_heat_map(data.decisions, "Decision accuracy by benchmark"),
        by_method=_heat_map(data.by_method, "Decision accuracy by scoring method"),
        own={row.benchmark: row for row in data.rows if row.metric == data.metric},
        sorted_by_accuracy=any(
            row.statistics["decision_accuracy"].value is not None for row in data.rows
        ),
        reasons=_reasons(data.rows),
        fewest_pairs=FEWEST_PAIRS,
        first_rows=FIRST_ROWS,
    )


def _heat_map(cells: Sequence[DecisionCell], title: str) -> Markup | None:
    return page_svg(decisions_figure(cells, WIDE), title) if cells else None


def _reasons(rows: Sequence[SignalRow]) -> dict[str, list[str]]:
    """Statistic → reasons why values are missing, each reason once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, statistic in row.statistics.items():
            if statistic.reason and statistic.reason not in found.setdefault(name, []):
                found[name].append(statistic.reason)
    return {name: reasons for name, reasons in sorted(found.items()) if reasons}
