"""Where to write a point's name so that names cover neither points nor each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Place = Literal["right", "left", "above", "below"]
PLACES: tuple[Place, ...] = ("right", "left", "above", "below")
FONT_SIZE = 11
_CHARACTER = 0.56 * FONT_SIZE
_GAP = 9.0
_POINT = 6.0


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


def offset(place: Place) -> dict[str, float | str]:
    """The text mark's settings for a side."""
    settings: dict[Place, dict[str, float | str]] = {
        "right": {"align": "left", "dx": _GAP, "dy": 0},
        "left": {"align": "right", "dx": -_GAP, "dy": 0},
        "above": {"align": "center", "dx": 0, "dy": -_GAP - 4},
        "below": {"align": "center", "dx": 0, "dy": _GAP + 4},
    }
    return settings[place]


def _box(point: tuple[float, float], text: str, place: Place) -> Box:
    x, y = point
    length = _CHARACTER * len(text)
    half = FONT_SIZE / 2 + 1
    if place == "right":
        return Box(x + _GAP, y - half, x + _GAP + length, y + half)
    if place == "left":
        return Box(x - _GAP - length, y - half, x - _GAP, y + half)
    middle = y + (_GAP + 4) * (-1 if place == "above" else 1)
    return Box(x - length / 2, middle - half, x + length / 2, middle + half)
