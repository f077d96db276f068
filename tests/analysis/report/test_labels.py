"""Labels of points: never over a point, never over each other, never outside."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from analysis.report.drawing import _POINT, Box, _box, place_labels, spread_labels

POINT = st.tuples(st.floats(0, 400), st.floats(0, 300))


@given(points=st.lists(POINT, max_size=20), length=st.integers(1, 30))
def test_placed_names_are_free(points, length):
    texts = ["m" * length] * len(points)
    boxes = [
        (index, _box(point, text, place))
        for index, (point, text, place) in enumerate(
            zip(points, texts, place_labels(points, texts, 400, 300), strict=True)
        )
        if place is not None
    ]
    for index, box in boxes:
        assert box.left >= 0 and box.right <= 400 and box.top >= 0 and box.bottom <= 300
        for other, (x, y) in enumerate(points):
            if other != index:
                assert not box.overlaps(Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT))
        for other, rest in boxes:
            assert other == index or not box.overlaps(rest)


def test_a_lonely_point_has_its_name_to_the_right_and_a_cornered_one_to_the_left():
    assert place_labels([(50, 50)], ["name"], 400, 300) == ["right"]
    assert place_labels([(399, 50)], ["name"], 400, 300) == ["left"]
    assert place_labels([(50, 50), (50, 50.0)], ["a", "b"], 20, 20) == [None, None]


def test_variants_of_a_model_drop_its_name():
    from analysis.report.data import point_labels

    assert point_labels(["a-7b", "a-7b-window-512", "a-7b-window-512-noise", "b"]) == {
        "a-7b": "a-7b",
        "a-7b-window-512": "… window-512",
        "a-7b-window-512-noise": "… noise",
        "b": "b",
    }


@given(ends=st.lists(st.floats(0, 300), max_size=20))
def test_names_at_line_ends_never_touch_and_the_outermost_are_there(ends):
    there = spread_labels(ends)
    shown = sorted(end for end, fits in zip(ends, there, strict=True) if fits)
    assert all(b - a >= 12 for a, b in pairwise(shown))
    if ends and max(ends) - min(ends) >= 12:
        assert {min(ends), max(ends)} <= set(shown)


def test_a_crowded_point_is_named_at_a_corner():
    """Points on all four sides leave only the diagonals."""
    around = [(100, 100), (118, 103), (82, 100), (96, 86), (100, 114)]
    place = place_labels(around, ["a", "", "", "", ""], 200, 200)[0]
    assert place == "above right"
