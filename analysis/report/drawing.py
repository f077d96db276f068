"""How pages and charts are drawn: colours by role, places of labels, SVG and PNG without browser.

Figures use a colour's placeholder; the theme decides what it becomes. The category colours differ
in lightness as well as hue, so that colour-blind readers can distinguish them; families also differ
in point shape. Labels cover neither points nor each other.
"""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import jinja2
from markupsafe import Markup

from analysis.templates import environment

Chart: TypeAlias = Any
"""An Altair chart; the package has no types for layered charts."""


@dataclass(frozen=True)
class Role:
    """A colour with a purpose: CSS variable, placeholder in figures, and both themes."""

    variable: str
    placeholder: str
    light: str
    dark: str


ROLES = (
    Role("--ink", "#010101", "#1c2430", "#e8ecf2"),
    Role("--faint", "#010102", "#66707f", "#98a3b3"),
    Role("--grid", "#010103", "#e1e5eb", "#2c3644"),
    Role("--surface", "#010104", "#ffffff", "#12171f"),
    Role("--positive", "#010105", "#0b62a8", "#58b0f5"),
    Role("--negative", "#010106", "#b93a12", "#ff9166"),
    Role("--c0", "#020200", "#0b62a8", "#58b0f5"),
    Role("--c1", "#020201", "#c24a0a", "#ff9a52"),
    Role("--c2", "#020202", "#0f7d5c", "#3fd0a0"),
    Role("--c3", "#020203", "#9c3d8f", "#eb9fde"),
    Role("--c4", "#020204", "#7a6300", "#e6cc4d"),
    Role("--c5", "#020205", "#4b4fb8", "#a7adff"),
    Role("--c6", "#020206", "#8a4b3c", "#d9a394"),
    Role("--c7", "#020207", "#4d5b6b", "#b4c0ce"),
)

INK, FAINT, GRID, SURFACE, POSITIVE, NEGATIVE = (role.placeholder for role in ROLES[:6])
CATEGORIES = tuple(role.placeholder for role in ROLES[6:])


LIGHT = {role.placeholder: role.light for role in ROLES}
"""Placeholder → fixed colour of the light theme."""


def family_colours(families: Iterable[str]) -> dict[str, str]:
    """Family → placeholder, in order of first appearance; beyond eight they repeat."""
    names = list(dict.fromkeys(families))
    return {name: CATEGORIES[index % len(CATEGORIES)] for index, name in enumerate(names)}


def variable_of(placeholder: str) -> str:
    """`var(--…)` for a placeholder, for use in the page's own markup."""
    return next(f"var({role.variable})" for role in ROLES if role.placeholder == placeholder)


Place = Literal[
    "right", "left", "above", "below", "above right", "below right", "above left", "below left"
]
PLACES: tuple[Place, ...] = get_args(Place)
FONT_SIZE = 11
_CHARACTER = 0.56 * FONT_SIZE
_GAP = 9.0
_POINT = 6.0
_DIAGONAL = 5.0


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether the two share any area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def place_labels(
    points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[Place | None]:
    """Choose a side for each name, the most crowded points first.

    Args:
        points: centres in pixels.
        texts: their names.
        width: of the frame, which names may not leave.
        height: of the frame.

    Returns:
        A side for each point, None where no side is free (the name is left out).
    """
    taken = [Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    own = list(taken)
    chosen: list[Place | None] = [None] * len(points)
    near = [
        sum(abs(x - other_x) < 90 and abs(y - other_y) < 24 for other_x, other_y in points)
        for x, y in points
    ]
    for index in sorted(range(len(points)), key=lambda index: -near[index]):
        for place in PLACES:
            box = _box(points[index], texts[index], place)
            inside = box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height
            if inside and not any(
                box.overlaps(other) for other in taken if other is not own[index]
            ):
                chosen[index] = place
                taken.append(box)
                break
    return chosen


def spread_labels(ends: Sequence[float]) -> list[bool]:
    """Which of the labels at the `ends` of lines, heights in pixels, fit without touching.

    The outermost come first, then the ones with the most space around them.
    """
    order = sorted(
        range(len(ends)),
        key=lambda i: (
            ends[i] not in (min(ends), max(ends)),
            -min((abs(ends[i] - y) for j, y in enumerate(ends) if j != i), default=math.inf),
        ),
    )
    taken: list[int] = []
    for index in order:
        if all(abs(ends[index] - ends[other]) >= FONT_SIZE + 1 for other in taken):
            taken.append(index)
    return [index in taken for index in range(len(ends))]


def text_width(text: str) -> float:
    """About how many pixels a name takes."""
    return _CHARACTER * len(text)


def offset(place: Place) -> dict[str, float | str]:
    """The text mark's settings for a side."""
    across = ("right" in place) - ("left" in place)
    up = ("above" in place) - ("below" in place)
    return {
        "align": {1: "left", 0: "center", -1: "right"}[across],
        "dx": across * (_DIAGONAL if up else _GAP),
        "dy": -up * (_GAP if across else _GAP + 4),
    }


def _box(point: tuple[float, float], text: str, place: Place) -> Box:
    settings = offset(place)
    length, half = text_width(text), FONT_SIZE / 2 + 1
    before = {"left": 0.0, "center": 0.5, "right": 1.0}[str(settings["align"])]
    left = point[0] + float(settings["dx"]) - before * length
    middle = point[1] + float(settings["dy"])
    return Box(left, middle - half, left + length, middle + half)


def powers_of_two(values: list[float]) -> list[int]:
    """Ticks for an axis of positions, at most about eight."""
    low = math.floor(math.log2(min(values)))
    high = math.ceil(math.log2(max(values)))
    return [2**power for power in range(low, high + 1, 1 + (high - low) // 8)]


def log_ticks(domain: list[float]) -> list[float]:
    """1, 2 and 5 times the powers of ten within an axis."""
    powers = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if domain[0] <= tick <= domain[1]]


def axis_limits(values: list[float], allow_log: bool = True) -> tuple[list[float], bool]:
    """Axis limits with a margin, and whether the values are skewed enough for a log axis."""
    low, high = min(values), max(values)
    if allow_log and low > 0 and high / low > 20:
        margin = (high / low) ** 0.06
        return [low / margin, high * margin], True
    margin = 0.06 * (high - low) or 1.0
    return [low - margin, high + margin], False


def along_axis(
    value: float, domain: list[float], log: bool = False, reverse: bool = False
) -> float:
    """Position of a value on its axis, 0 to 1 from the left or bottom."""
    low, high = domain
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    share = (value - low) / (high - low)
    return 1 - share if reverse else share


WIDE, HALF, PHONE = 700, 380, 330
"""Widths of figures in pixels: a wide page's, half of one, and a phone's."""

BARE_AXIS: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
"""Settings of an axis that shows its labels only."""

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


@dataclass(frozen=True)
class Drawing:
    """A figure drawn twice, for wide columns and for phones; only one is shown."""

    wide: Markup
    narrow: Markup


def html_pages(*packages: str) -> jinja2.Environment:
    """Templates of packages, on the frame and with the macros, formats and colours of the report.

    Every value is escaped.
    """
    pages = environment(*packages, "analysis.report", escape_html=True)
    pages.globals["colour_roles"] = ROLES
    return pages


def drawn(draw: Callable[[int], Chart], width: int, name: str, title: str) -> Drawing:
    """A figure for both widths of a page.

    Args:
        draw: the figure of a width in pixels.
        width: on a wide page.
        name: unique within the page.
        title: read by screen readers before the figure's marks.
    """
    wide, narrow = (
        Markup(page_svg(draw(each), f"{name}-{column}", title))
        for each, column in ((width, "wide"), (PHONE, "narrow"))
    )
    return Drawing(wide, narrow)


def page_svg(chart: Chart, name: str, title: str) -> str:
    """Inline SVG whose colours follow the page's theme and whose width follows the column.

    Args:
        chart: the figure.
        name: unique within the page, for the title's id.
        title: read by screen readers before the figure's marks.
    """
    svg = _parsed(chart, {role.placeholder: f"var({role.variable})" for role in ROLES})
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


def file_svg(chart: Chart) -> str:
    """A self-contained SVG in the light theme, transparent."""
    svg = _parsed(chart, LIGHT)
    for element in svg.iter():
        if element.get("font-family") == "sans-serif":
            element.set("font-family", _FONT)
    return ElementTree.tostring(svg, encoding="unicode")


def file_png(chart: Chart) -> bytes:
    """A PNG at twice the size, in the light theme on white."""
    import vl_convert

    svg = _parsed(chart, LIGHT)
    white = {"width": "100%", "height": "100%", "fill": "#ffffff"}
    svg.insert(0, ElementTree.Element(f"{{{_NAMESPACE}}}rect", white))
    data: bytes = vl_convert.svg_to_png(ElementTree.tostring(svg, encoding="unicode"), scale=2)
    return data


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
