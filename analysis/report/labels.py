"""Placement of labels: they cover neither points nor each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Place = Literal[
    "right", "left", "above", "below", "above right", "below right", "above left", "below left"
]
PLACES: tuple[Place, ...] = (
    "right", "left", "above", "below", "above right", "below right", "above left", "below left",
)  # fmt: skip
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
    crowded = sorted(
        range(len(points)),
        key=lambda i: (
            -sum(abs(points[i][0] - x) < 90 and abs(points[i][1] - y) < 24 for x, y in points)
        ),
    )
    for index in crowded:
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
    """Which of the labels at the ends of lines fit without touching.

    The outermost come first, then the ones with the most space around them.

    Args:
        ends: heights of the line ends in pixels.
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
    across, up = _direction(place)
    near = _GAP if not up else _DIAGONAL
    return {
        "align": {1: "left", 0: "center", -1: "right"}[across],
        "dx": across * near,
        "dy": -up * (_GAP + 4) if not across else -up * _GAP,
    }


def _direction(place: Place) -> tuple[int, int]:
    """To the right or left, up or down, as 1, 0 or -1."""
    across = ("right" in place) - ("left" in place)
    return across, ("above" in place) - ("below" in place)


def _box(point: tuple[float, float], text: str, place: Place) -> Box:
    x, y = point
    length, half = text_width(text), FONT_SIZE / 2 + 1
    settings = offset(place)
    start = x + float(settings["dx"])
    left = {"left": start, "center": start - length / 2, "right": start - length}[
        str(settings["align"])
    ]
    middle = y + float(settings["dy"])
    return Box(left, middle - half, left + length, middle + half)
