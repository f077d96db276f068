"""From an Altair chart to SVG or PNG, without a browser and without the network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.report.palette import FAINT, GRID, INK, as_light, as_variables

if TYPE_CHECKING:
    from analysis.report.figures import Chart

MAXIMUM_SCALE = 1.15
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": FAINT,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 12,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "titlePadding": 10,
    },
    "style": {"cell": {"stroke": None}},
}


def page_svg(chart: Chart, name: str, title: str) -> str:
    """Inline SVG whose colours follow the page's theme and whose width follows the column.

    Args:
        chart: the figure.
        name: unique within the page, for the title's id.
        title: what a screen reader says before the figure's marks.
    """
    svg = _recolour(_svg(chart), as_variables())
    # CSS owns the size; an id-free <title> keeps the accessible name inside the figure.
    svg = re.sub(r'(<svg\b[^>]*?) width="([\d.]+)" height="[\d.]+"', _free_size, svg, count=1)
    svg = re.sub(r'\sclass="marks"', ' class="figure"', svg, count=1)
    svg = re.sub(r"(<svg\b[^>]*)>", rf'\1 role="group" aria-labelledby="{name}">', svg, count=1)
    svg = re.sub(r"(<svg\b[^>]*>)", rf'\1<title id="{name}">{title}</title>', svg, count=1)
    return svg.replace('font-family="sans-serif"', "")


def _free_size(opening: re.Match[str]) -> str:
    """Let the column set the size, up to a little more than the drawn one."""
    widest = round(float(opening.group(2)) * MAXIMUM_SCALE)
    return f'{opening.group(1)} style="max-width:{widest}px"'


def file_svg(chart: Chart) -> str:
    """A stand-alone SVG in the light theme."""
    return _recolour(_svg(chart), as_light()).replace(
        'font-family="sans-serif"', f'font-family="{_FONT}"'
    )


def file_png(chart: Chart) -> bytes:
    """A PNG at twice the size, in the light theme on white."""
    import vl_convert

    svg = _recolour(_svg(chart), as_light())
    svg = re.sub(
        r"(<svg\b[^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1
    )
    data: bytes = vl_convert.svg_to_png(svg, scale=2)
    return data


def _svg(chart: Chart) -> str:
    import vl_convert

    spec = json.loads(chart.to_json())
    spec["config"] = _CONFIG
    spec["padding"] = 4
    text: str = vl_convert.vegalite_to_svg(spec, vl_version="5.20")
    return text


def _recolour(svg: str, colours: Mapping[str, str]) -> str:
    for placeholder, colour in colours.items():
        svg = svg.replace(placeholder, colour)
    return svg
