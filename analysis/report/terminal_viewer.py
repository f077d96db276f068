"""One document's tokens under one or two models, shaded in the terminal."""

from __future__ import annotations

import math
from itertools import accumulate

from rich.console import Console
from rich.text import Text

from analysis.report.viewer import Measure, Reading, Segment, View
from warehouse.errors import visible

LEGENDS: dict[Measure, str] = {
    "logprob": "stronger colour: higher NLL (0 to 8 nats)",
    "gain": "blue: the far context helped, orange: it hurt (up to 3 nats)",
    "rank": "stronger colour: larger rank (1 to 1000)",
}
_WARM, _COOL = (214, 82, 20), (11, 98, 168)
_STEPS = 8


def intensity(segment: Segment, measure: Measure) -> float | None:
    """−1 to 1: how strongly a segment is shaded; negative is cool, None is unshaded."""
    if measure == "logprob":
        return min(-segment.logprob / 8.0, 1.0)
    if measure == "rank":
        return min(math.log10(segment.rank) / 3.0, 1.0)
    return None if segment.gain is None else -max(-1.0, min(segment.gain / 3.0, 1.0))


def print_view(console: Console, view: View, measure: Measure, keys_only: bool) -> None:
    """Print each model's reading under its name."""
    title = f"{view.name} (document {view.doc_id} of {view.problem})"
    console.print(Text(visible(title)), style="bold")
    console.print(Text(visible(f"{view.extent}.")), style="dim")
    if view.warning:
        console.print(Text(visible(f"warning: {view.warning}")), style="bold")
    console.print(LEGENDS[measure], style="dim", highlight=False)
    for reading in view.readings:
        console.print()
        console.print(Text(visible(_headline(reading))), style="bold")
        console.print(shaded(view, reading, measure, keys_only))


def shaded(view: View, reading: Reading, measure: Measure, keys_only: bool) -> Text:
    """The text with a background per segment; key tokens are underlined."""
    characters = [visible(character) for character in view.text]
    text = Text("".join(characters))
    places = list(accumulate(map(len, characters), initial=0))
    for segment in reading.segments:
        first, last = (
            places[min(max(place - view.start, 0), len(characters))]
            for place in (segment.start, segment.end)
        )
        strength = intensity(segment, measure)
        if segment.is_key:
            text.stylize("underline bold", first, last)
        if strength is None or (keys_only and not segment.is_key):
            continue
        level = round(abs(strength) * _STEPS) / _STEPS
        if level > 0:
            text.stylize(_style(level, strength < 0), first, last)
    return text


def _style(level: float, cool: bool) -> str:
    red, green, blue = (round(255 - level * (255 - c)) for c in (_COOL if cool else _WARM))
    ink = "white" if level > 0.55 else "black"
    return f"{ink} on rgb({red},{green},{blue})"


def _headline(reading: Reading) -> str:
    keys = sum(s.is_key for s in reading.segments)
    text = f"{reading.model}: {reading.tokens:,} tokens, mean NLL {reading.mean_nll:.3f}"
    if reading.gain_condition:
        text += (
            f", gain from {reading.gain_condition} for {reading.gained:,} of them, "
            f"{keys} key tokens"
        )
    return text
