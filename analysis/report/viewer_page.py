"""The token viewer as one HTML page: text shaded token by token, models aligned by characters."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from analysis.report.page import TEMPLATES
from analysis.report.palette import css
from analysis.report.viewer import KEY_GAIN, KEY_LOGPROB, Measure, Reading, View

ROW_CHARACTERS = 600
"""Longer lines are cut at a space, so that two columns stay side by side."""


def viewer_page(view: View, measure: Measure) -> str:
    """The whole page; texts and numbers travel as JSON and are set as text, never as markup."""
    style = (TEMPLATES / "show.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "show.js").read_text(encoding="utf-8")
    names = " and ".join(reading.model for reading in view.readings)
    heads = "".join(_head(reading) for reading in view.readings)
    options = "".join(
        f'<label><input type="radio" name="measure" value="{value}"'
        f"{' checked' if value == measure else ''}>{label}</label>"
        for value, label in (("logprob", "log-prob"), ("gain", "gain"), ("rank", "rank"))
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
        f"<title>{escape(view.name)}: {escape(names)}</title><style>:root{{{css('light')}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{css('dark')}}}}}\n{style}</style>"
        f'</head><body><header><h1>{escape(view.name)}</h1><p class="quiet">Document '
        f"{view.doc_id} of {escape(view.problem)}, characters {view.start:,} to "
        f"{view.start + len(view.text):,}</p>"
        f'<form aria-label="Shading"><fieldset><legend>Shade by</legend>{options}</fieldset>'
        '<fieldset><legend>Key tokens</legend><label><input type="checkbox" id="keys">only</label>'
        '<label>gain above <input type="number" id="alpha" step="0.5" '
        f'value="{KEY_GAIN:g}"></label>'
        '<label>log-prob above <input type="number" id="beta" step="0.5" '
        f'value="{KEY_LOGPROB:g}"></label>'
        '<button type="button" id="next">next key token</button></fieldset></form>'
        '<p id="legend" class="quiet"></p></header>'
        f'<main style="--columns:{len(view.readings)}"><div class="heads">{heads}</div>'
        '<div id="text"><noscript>This page needs JavaScript to shade the text; it needs no '
        'network.</noscript></div></main><aside id="panel" role="status" aria-live="polite">'
        "Point at a token, or press Tab and use the arrow keys.</aside>"
        f'<script type="application/json" id="data">{_embedded(_document(view))}</script>'
        f"<script>{script}</script></body></html>\n"
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


def _head(reading: Reading) -> str:
    tokens = sum(segment.tokens for segment in reading.segments)
    mean = sum(-segment.logprob for segment in reading.segments) / max(tokens, 1)
    known = sum(segment.tokens for segment in reading.segments if segment.gain is not None)
    gain = (
        f", gain from {escape(reading.gain_condition)} for {known:,} of them"
        if reading.gain_condition
        else ", no gain"
    )
    return (
        f"<div><h2>{escape(reading.model)}</h2><p class=quiet>{tokens:,} tokens, mean NLL "
        f"{mean:.3f}{gain}</p></div>"
    )


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


def _embedded(content: dict[str, Any]) -> str:
    """JSON that can stand inside a script element whatever the text holds."""
    text = json.dumps(content, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
