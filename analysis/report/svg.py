"""From an Altair chart to SVG or PNG, without a browser and without the network."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.report.palette import FAINT, GRID, INK, as_light, as_variables

if TYPE_CHECKING:
    from analysis.report.figures import Chart

MAXIMUM_SCALE = 1.15
_NAMESPACE = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _NAMESPACE)
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

VALIDATE = False
"""Whether charts are checked against Vega-Lite's schema: half of a figure's time. Tests do."""


def page_svg(chart: Chart, name: str, title: str) -> str:
    """Inline SVG whose colours follow the page's theme and whose width follows the column.

    Args:
        chart: the figure.
        name: unique within the page, for the title's id.
        title: read by screen readers before the figure's marks.
    """
    svg = _parsed(chart, as_variables())
    # CSS owns the size, up to a little more than the drawn one, and the font.
    widest = round(float(svg.attrib.pop("width")) * MAXIMUM_SCALE)
    del svg.attrib["height"]
    for element in svg.iter():
        if element.get("font-family") == "sans-serif":
            del element.attrib["font-family"]
    svg.attrib |= {
        "class": "figure",
        "style": f"max-width:{widest}px",
        "role": "group",
        "aria-labelledby": name,
    }
    label = ElementTree.Element(f"{{{_NAMESPACE}}}title", {"id": name})
    label.text = title
    svg.insert(0, label)
    return ElementTree.tostring(svg, encoding="unicode")


def file_svg(chart: Chart, *, ground: bool = False) -> str:
    """A self-contained SVG in the light theme.

    Args:
        chart: the figure.
        ground: white behind it, for pages whose own ground may be dark; without it there is none.
    """
    svg = _parsed(chart, as_light())
    if ground:
        _paint_ground(svg)
    for element in svg.iter():
        if element.get("font-family") == "sans-serif":
            element.set("font-family", _FONT)
    return ElementTree.tostring(svg, encoding="unicode")


def file_png(chart: Chart) -> bytes:
    """A PNG at twice the size, in the light theme on white."""
    import vl_convert

    svg = _parsed(chart, as_light())
    _paint_ground(svg)
    data: bytes = vl_convert.svg_to_png(ElementTree.tostring(svg, encoding="unicode"), scale=2)
    return data


def _paint_ground(svg: ElementTree.Element) -> None:
    white = {"width": "100%", "height": "100%", "fill": "#ffffff"}
    svg.insert(0, ElementTree.Element(f"{{{_NAMESPACE}}}rect", white))


def _parsed(chart: Chart, colours: Mapping[str, str]) -> ElementTree.Element:
    """The chart's SVG with every placeholder replaced by its colour."""
    import vl_convert

    spec = json.loads(chart.to_json(validate=VALIDATE))
    spec["config"] = _CONFIG
    spec["padding"] = 4
    text: str = vl_convert.vegalite_to_svg(spec, vl_version="5.20")
    for placeholder, colour in colours.items():
        text = text.replace(placeholder, colour)
    return ElementTree.fromstring(text)
