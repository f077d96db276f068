"""The token viewer as one HTML page: text shaded token by token, models aligned by characters."""

from __future__ import annotations

from typing import Any

from analysis.report.formats import FILTERS
from analysis.report.palette import ROLES
from analysis.report.viewer import KEY_GAIN, KEY_LOGPROB, Measure, View
from analysis.templates import environment

ROW_CHARACTERS = 600
"""Longer lines are cut at a space, so that two columns stay side by side."""


def view_page(view: View, measure: Measure) -> str:
    """The whole page, shaded by `measure` at first."""
    pages = environment("analysis.report", escape_html=True)
    pages.filters.update(FILTERS)
    return pages.get_template("show.html.j2").render(
        view=view,
        measure=measure,
        document=_document(view),
        colour_roles=ROLES,
        KEY_GAIN=KEY_GAIN,
        KEY_LOGPROB=KEY_LOGPROB,
    )


def rows(text: str) -> list[tuple[int, int]]:
    """Cut a text into lines, long ones at spaces; together they cover it exactly."""
    found = []
    start = 0
    while start < len(text):
        newline = text.find("\n", start)
        end = len(text) if newline < 0 else newline + 1
        if end - start > ROW_CHARACTERS:
            space = text.rfind(" ", start + 1, start + ROW_CHARACTERS)
            end = space + 1 if space > 0 else start + ROW_CHARACTERS
        found.append((start, end))
        start = end
    return found


def _document(view: View) -> dict[str, Any]:
    """Numbers in thousandths, offsets in UTF-16 units as JavaScript counts them."""
    units = [0]
    for character in view.text:
        units.append(units[-1] + (2 if ord(character) > 0xFFFF else 1))

    def at(character: int) -> int:
        return units[min(max(character - view.start, 0), len(view.text))]

    def thousandths(value: float | None) -> int | None:
        return None if value is None else round(value * 1000)

    return {
        "text": view.text,
        "rows": [[units[first], units[last]] for first, last in rows(view.text)],
        "models": [
            {
                "name": reading.model,
                "start": [at(s.start) for s in reading.segments],
                "end": [at(s.end) for s in reading.segments],
                "logprob": [thousandths(s.logprob) for s in reading.segments],
                "gain": [thousandths(s.gain) for s in reading.segments],
                "entropy": [thousandths(s.entropy) for s in reading.segments],
                "rank": [s.rank for s in reading.segments],
                "tokens": [s.tokens for s in reading.segments],
                "position": [s.position for s in reading.segments],
            }
            for reading in view.readings
        ],
    }
