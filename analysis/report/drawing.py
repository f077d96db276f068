"""Pages as Jinja templates, and charts as SVG in the colours of the page.

A chart names its colours by CSS variables (`INK`, `CATEGORIES` …), which each page defines for the
light and the dark theme. The category colours differ in lightness as well
as hue, so that colour-blind readers can distinguish them.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import jinja2
from markupsafe import Markup

from analysis.templates import environment

Chart: TypeAlias = Any
"""An Altair chart; the package has no types for layered charts."""

COLOURS = {
    "ink": ("#1c2430", "#e8ecf2"),
    "faint": ("#66707f", "#98a3b3"),
    "grid": ("#e1e5eb", "#2c3644"),
    "surface": ("#ffffff", "#12171f"),
    "positive": ("#0b62a8", "#58b0f5"),
    "negative": ("#b93a12", "#ff9166"),
    "c0": ("#0b62a8", "#58b0f5"),
    "c1": ("#c24a0a", "#ff9a52"),
    "c2": ("#0f7d5c", "#3fd0a0"),
    "c3": ("#9c3d8f", "#eb9fde"),
    "c4": ("#7a6300", "#e6cc4d"),
    "c5": ("#4b4fb8", "#a7adff"),
    "c6": ("#8a4b3c", "#d9a394"),
    "c7": ("#4d5b6b", "#b4c0ce"),
}
"""Name of a colour → in the light theme, in the dark one."""

_VARIABLES = {name: f"var(--{name})" for name in COLOURS}
INK, FAINT, GRID, SURFACE, POSITIVE, NEGATIVE = list(_VARIABLES.values())[:6]
CATEGORIES = tuple(_VARIABLES.values())[6:]

HALF = 380
"""Width of a figure in pixels, half of a page's. On a phone it is scaled down."""

_CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": FAINT,
        "titleFontWeight": "normal",
        "titleFontSize": 13,
        "labelFontSize": 13,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "titlePadding": 10,
    },
}


def html_pages(*packages: str) -> jinja2.Environment:
    """Templates of packages, on the frame and with the macros, formats and colours of the report.

    Every value is escaped.
    """
    pages = environment(*packages, "analysis.report", escape_html=True)
    pages.globals["colours"] = COLOURS
    return pages


def page_svg(chart: Chart, title: str) -> Markup:
    """Inline SVG that follows the page's theme, never wider than its column.

    Args:
        chart: the figure.
        title: what screen readers read before its marks.
    """
    import vl_convert

    spec = {**json.loads(chart.to_json()), "config": _CONFIG, "padding": 4}
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version="5.20")
    frame = Markup('<div class="figure" role="group" aria-label="{}">{}</div>')
    return frame.format(title, Markup(svg))
