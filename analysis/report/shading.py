"""A view of tokens with each one shaded by a measure: on a page, in a notebook, in the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup, escape

from analysis.report.drawing import html_pages
from analysis.report.viewer import ScoredText, Segment, View
from warehouse.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Measure = Literal["logprob", "gain", "rank"]

LEGENDS: dict[Measure, str] = {
    "logprob": "log-probability: stronger colour is lower (0 to −8 nats)",
    "gain": "gain: blue where the far context helped, orange where it hurt (up to 3 nats)",
    "rank": "rank: stronger colour is larger (1 to 1000)",
}
_WARM, _COOL = (214, 82, 20), (11, 98, 168)
_STEPS = 8


def intensity(segment: Segment, measure: Measure) -> float | None:
    """−1 to 1: how strongly a segment is shaded; negative is cool, None is unshaded."""
    if measure == "logprob":
        return min(-segment.logprob / 8.0, 1.0)
    if measure == "rank":
        return None if segment.rank is None else min(math.log10(segment.rank) / 3.0, 1.0)
    return None if segment.gain is None else -max(-1.0, min(segment.gain / 3.0, 1.0))


@dataclass(frozen=True)
class ShownTokens:
    """A view that a notebook displays: the text with every token shaded by `measure`."""

    view: View
    measure: Measure

    def _repr_html_(self) -> str:
        pages = html_pages()
        return pages.get_template("tokens.html.j2").render(
            _names(self.view, self.measure, LEGENDS[self.measure])
        )

    def __repr__(self) -> str:
        lines = [self.view.title, *(headline(scores) for scores in self.view.scored)]
        return "\n".join(map(visible, lines))


def view_page(view: View, measure: Measure) -> str:
    """The whole page, shaded by `measure` at first."""
    legend = "; ".join(LEGENDS.values())
    return html_pages().get_template("show.html.j2").render(_names(view, measure, legend))


def _names(view: View, measure: Measure, legend: str) -> dict[str, object]:
    return {
        "view": view,
        "measure": measure,
        "legend": legend,
        "columns": [(headline(scores), spans(view, scores)) for scores in view.scored],
    }


def spans(view: View, scores: ScoredText) -> Markup:
    """The text with a `span` per segment, whose style has its shading by each measure in percent.

    Classes: `k` is a key token of LongPPL's, `h` lost by the far context, `n` has no gain.
    """
    parts, at = [], view.start
    for segment in scores.segments:
        first, last = max(segment.start, at), min(segment.end, view.start + len(view.text))
        parts.append(_text(view, at, first))
        gain = intensity(segment, "gain")
        classes = " k" * segment.is_key + (" n" if gain is None else " h" * (gain > 0))
        shades = (intensity(segment, "logprob"), intensity(segment, "rank"), gain)
        logprob, rank, won = (round(100 * abs(shade or 0.0)) for shade in shades)
        parts.append(
            f'<span class="t{classes}" style="--l:{logprob}%;--r:{rank}%;--g:{won}%" '
            f'title="{_facts(segment)}">{_text(view, first, last)}</span>'
        )
        at = max(at, last)
    parts.append(_text(view, at, view.start + len(view.text)))
    return Markup("".join(parts))


def _text(view: View, first: int, last: int) -> str:
    """Characters of the document as HTML; the end of a line is visible, so that it has a shade."""
    text = view.text[first - view.start : max(last, first) - view.start]
    return str(escape(text)).replace("\n", "↵\n")


def _facts(segment: Segment) -> str:
    gain, entropy = (
        "none" if value is None else f"{value:.3f}" for value in (segment.gain, segment.entropy)
    )
    ranked = "none" if segment.rank is None else segment.rank
    text = (
        f"log-prob {segment.logprob:.3f} (p {math.exp(segment.logprob):.3g}), rank {ranked}, "
        f"entropy {entropy}, gain {gain}, position {segment.position}"
    )
    return text if segment.tokens == 1 else f"{text}, {segment.tokens} tokens"


def print_view(console: Console, view: View, measure: Measure) -> None:
    """Print each model's text under its name."""
    from rich.text import Text

    console.print(Text(visible(view.title)), style="bold")
    console.print(Text(visible(f"{view.extent}.")), style="dim")
    if view.warning:
        console.print(Text(visible(f"warning: {view.warning}")), style="bold")
    console.print(LEGENDS[measure], style="dim", highlight=False)
    for scores in view.scored:
        console.print()
        console.print(Text(visible(headline(scores))), style="bold")
        console.print(shaded(view, scores, measure))


def shaded(view: View, scores: ScoredText, measure: Measure) -> Text:
    """The text with a background per segment; key tokens are underlined."""
    from rich.text import Text

    characters = [visible(character) for character in view.text]
    text = Text("".join(characters))
    places = list(accumulate(map(len, characters), initial=0))
    for segment in scores.segments:
        first, last = (
            places[min(max(place - view.start, 0), len(characters))]
            for place in (segment.start, segment.end)
        )
        if segment.is_key:
            text.stylize("underline bold", first, last)
        strength = intensity(segment, measure) or 0.0
        level = round(abs(strength) * _STEPS) / _STEPS
        if level > 0:
            text.stylize(_style(level, strength < 0), first, last)
    return text


def _style(level: float, cool: bool) -> str:
    red, green, blue = (round(255 - level * (255 - c)) for c in (_COOL if cool else _WARM))
    ink = "white" if level > 0.55 else "black"
    return f"{ink} on rgb({red},{green},{blue})"


def headline(scores: ScoredText) -> str:
    """A model's name, tokens and means."""
    text = f"{scores.model}: {scores.tokens:,} tokens, mean NLL {scores.mean_nll:.3f}"
    if scores.gain_condition:
        keys = sum(segment.is_key for segment in scores.segments)
        text += (
            f", gain from {scores.gain_condition} for {scores.gained:,} of them, {keys} key tokens"
        )
    return text
