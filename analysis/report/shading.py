"""A view of tokens with each one shaded by a measure: on a page or, by `tm.show`, in a notebook.

import tokenmart as tm

tm.show("0", "smollm2-135m", "gemma3-270m", measure="gain")
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from markupsafe import Markup, escape

from analysis.report.drawing import html_pages
from analysis.report.viewer import ScoredText, Segment, View, load_view
from warehouse.errors import TokenmartError, visible
from warehouse.options import problem_or_newest
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem

Measure = Literal["logprob", "gain", "rank"]

LEGENDS: dict[Measure, str] = {
    "logprob": "log-probability: stronger colour is lower (0 to −8 nats)",
    "gain": "gain: blue where the far context helped, orange where it hurt (up to 3 nats)",
    "rank": "rank: stronger colour is larger (1 to 1000)",
}
SHOWN_CHARACTERS = 3000


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


def show(
    document: str | int,
    model: str,
    other: str | None = None,
    *,
    problem: str | None = None,
    measure: Measure = "logprob",
    condition: str | None = None,
    start: int = 0,
    characters: int | None = SHOWN_CHARACTERS,
) -> ShownTokens:
    """Show a document with every token shaded, for one model or two side by side.

    Args:
        document: id or name.
        model: its id, full id or the end of it.
        other: a second model.
        problem: name or path of a problem file; None for the problem that was extracted last.
        measure: what the shading shows: `logprob`, `gain` (of the context before a window) or
            `rank`.
        condition: window condition that the gain is relative to; None for the first.
        start: first character.
        characters: how many; None for all.

    Raises:
        TokenmartError: no such problem, document, model or measure, or nothing was extracted.
    """
    if measure not in get_args(Measure):
        raise TokenmartError(
            f"measure {measure!r}: use {', '.join(get_args(Measure))}",
            code="unknown-measure",
            where="measure",
        )
    workspace = find_workspace()
    chosen = load_problem(problem_or_newest(problem, workspace), workspace)
    models = [model] if other is None else [model, other]
    view = load_view(chosen, workspace, str(document), models, start, characters, condition)
    return ShownTokens(view, measure)


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


def headline(scores: ScoredText) -> str:
    """A model's name, tokens and means."""
    text = f"{scores.model}: {scores.tokens:,} tokens, mean NLL {scores.mean_nll:.3f}"
    if scores.gain_condition:
        keys = sum(segment.is_key for segment in scores.segments)
        text += f", gain from {scores.gain_condition}, {keys} key tokens"
    return text
