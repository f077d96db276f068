"""One document's tokens under one or two models, shaded on a page or in the terminal.

A segment is a stretch of text with numbers: usually one token. Tokens that share characters
(bytes of one character) or have none become one segment whose log-probs add up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import duckdb
from rich.console import Console
from rich.text import Text

from analysis.report.drawing import html_pages
from warehouse.errors import TokenmartError, visible
from warehouse.sql.connection import connect_for_queries

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.models import ModelSpec
    from warehouse.problem.spec import Problem

Measure = Literal["logprob", "gain", "rank"]
KEY_GAIN = 2.0
KEY_LOGPROB = -2.0
"""LongPPL's key tokens: gain above the first, log-prob above the second, in nats."""

ROW_CHARACTERS = 600
"""Longer lines of a page are cut at a space, so that two columns stay side by side."""

_LINE = re.compile(
    rf"[^\n]{{0,{ROW_CHARACTERS - 1}}}\n|[^\n]{{1,{ROW_CHARACTERS}}}\Z"
    rf"|[^\n]{{1,{ROW_CHARACTERS - 1}}} |[^\n]{{{ROW_CHARACTERS}}}"
)
"""A line that fits, the last line, a long one up to its last space that fits, or its start."""

LEGENDS: dict[Measure, str] = {
    "logprob": "stronger colour: higher NLL (0 to 8 nats)",
    "gain": "blue: the far context helped, orange: it hurt (up to 3 nats)",
    "rank": "stronger colour: larger rank (1 to 1000)",
}
_WARM, _COOL = (214, 82, 20), (11, 98, 168)
_STEPS = 8


@dataclass(frozen=True)
class Segment:
    """Characters `start` to `end` and what the model made of them.

    logprob, entropy: nats; gain: nats won by the far context, None where it wasn't measured;
    rank: the worst among the segment's tokens; tokens: how many; position: of the first.
    """

    start: int
    end: int
    logprob: float
    entropy: float
    rank: int
    gain: float | None
    tokens: int
    position: int

    @property
    def is_key(self) -> bool:
        """Whether it is a key token in LongPPL's sense."""
        return self.gain is not None and self.gain > KEY_GAIN and self.logprob > KEY_LOGPROB


@dataclass(frozen=True)
class Reading:
    """One model's reading of the document."""

    model: str
    segments: tuple[Segment, ...]
    gain_condition: str | None

    @property
    def tokens(self) -> int:
        """Number of tokens in the segments."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def mean_nll(self) -> float:
        """Nats per token."""
        return sum(-segment.logprob for segment in self.segments) / max(self.tokens, 1)


@dataclass(frozen=True)
class View:
    """A document and its readings; `text` is the part from character `start`."""

    problem: str
    doc_id: int
    name: str
    start: int
    text: str
    readings: tuple[Reading, ...]


def load_view(
    problem: Problem,
    workspace: Workspace,
    document: str,
    models: Sequence[str],
    start: int = 0,
    characters: int | None = None,
    condition: str | None = None,
) -> View:
    """Read a document and its tokens.

    Args:
        problem: of the document.
        workspace: the checkout.
        document: id or name.
        models: full ids, ids or unambiguous endings.
        start: first character shown.
        characters: how many are shown; up to the last scored token when None.
        condition: the window condition that gain is taken from; the first when None.

    Raises:
        TokenmartError: no such document or model, or nothing was extracted for it.
    """
    chosen = [_model(problem, name) for name in models]
    with connect_for_queries(workspace) as connection:
        doc_id, name, text = _document(connection, problem.name, document)
        if not 0 <= start < len(text):
            raise TokenmartError(
                f"--start {start}: {name} has characters 0 to {len(text) - 1}; choose one of them"
            )
        end = len(text) if characters is None else min(len(text), start + characters)
        readings = tuple(
            _reading(connection, problem.name, model, doc_id, start, end, condition)
            for model in chosen
        )
    if characters is None:
        end = max(segment.end for reading in readings for segment in reading.segments)
    return View(problem.name, doc_id, name, start, text[start:end], readings)


def first_shaded(view: View) -> int:
    """The first character of a token that has a gain; the view's first where none has."""
    segments = (segment for reading in view.readings for segment in reading.segments)
    return min((s.start for s in segments if s.gain is not None), default=view.start)


def merge(tokens: Iterable[Segment]) -> list[Segment]:
    """Segments of one token each, in order of position, into segments that don't overlap."""
    segments: list[Segment] = []
    for token in tokens:
        last = segments[-1] if segments else None
        if last is None or (token.start >= last.end and token.end > token.start):
            segments.append(token)
            continue
        gains = [gain for gain in (last.gain, token.gain) if gain is not None]
        segments[-1] = replace(
            last,
            end=max(last.end, token.end),
            logprob=last.logprob + token.logprob,
            entropy=last.entropy + token.entropy,
            rank=max(last.rank, token.rank),
            gain=sum(gains) if gains else None,
            tokens=last.tokens + 1,
        )
    return segments


def _model(problem: Problem, name: str) -> ModelSpec:
    exact = any(name in (model.full_id, model.model_id) for model in problem.models)
    ending = [model for model in problem.models if model.full_id.endswith(f"/{name}")]
    return ending[0] if len(ending) == 1 and not exact else problem.model(name)


def _document(
    connection: duckdb.DuckDBPyConnection, problem: str, document: str
) -> tuple[int, str, str]:
    rows = connection.execute(
        "select doc_id, name, text from documents where problem = ?"
        " and (name = ? or cast(doc_id as varchar) = ?) order by doc_id",
        [problem, document, document],
    ).fetchall()
    if not rows:
        [(first, last)] = connection.execute(
            "select min(doc_id), max(doc_id) from documents where problem = ?", [problem]
        ).fetchall()
        if first is None:
            raise TokenmartError(
                f"{problem}: no documents yet; run `tokenmart extract --problem {problem}`"
            )
        raise TokenmartError(
            f"--document {document}: no such document in {problem}; give a name or an id from "
            f"{first} to {last}"
        )
    doc_id, name, text = rows[0]
    return int(doc_id), str(name), str(text)


def _reading(
    connection: duckdb.DuckDBPyConnection,
    problem: str,
    model: ModelSpec,
    doc_id: int,
    start: int,
    end: int,
    condition: str | None,
) -> Reading:
    rows = connection.execute(
        "select char_start, char_end, logprob, entropy, rank, position from tokens"
        " where problem = $problem and model_id = $model and doc_id = $document"
        " and char_end >= $start and char_start < $end and condition = coalesce("
        "(select any_value(condition) from units where problem = $problem"
        " and model_id = $model and condition_kind = 'full'), 'full') order by position",
        {"problem": problem, "model": model.model_id, "document": doc_id}
        | {"start": start, "end": end},
    ).fetchall()
    if not rows:
        raise TokenmartError(
            f"{model.full_id}: nothing extracted for document {doc_id} in characters {start} to "
            f"{end}; run `tokenmart extract --problem {problem} --model {model.full_id}`"
        )
    gain_condition, gains = _gains(connection, problem, model.model_id, doc_id, condition)
    segments = merge(
        Segment(first, last, logprob, entropy, rank, gains.get(position), 1, position)
        for first, last, logprob, entropy, rank, position in rows
    )
    shown = tuple(segment for segment in segments if segment.end > start and segment.start < end)
    return Reading(model.full_id, shown, gain_condition)


def _gains(
    connection: duckdb.DuckDBPyConnection,
    problem: str,
    model_id: str,
    doc_id: int,
    condition: str | None,
) -> tuple[str | None, dict[int, float]]:
    """Gain by position from one window condition; none where dbt hasn't paired the contexts."""
    try:
        rows = connection.execute(
            "select condition, position, gain from context_pairs"
            " where problem = ? and model_id = ? and doc_id = ? order by condition",
            [problem, model_id, doc_id],
        ).fetchall()
    except duckdb.CatalogException:
        rows = []
    found: dict[str, dict[int, float]] = {}
    for name, position, gain in rows:
        found.setdefault(name, {})[position] = gain
    chosen = condition or next(iter(found), None)
    if condition is not None and condition not in found:
        raise TokenmartError(
            f"--condition {condition}: no gain from it for {model_id} in document {doc_id}; "
            f"there is {', '.join(found) or 'none'}"
        )
    return chosen, found[chosen] if chosen else {}


def view_page(view: View, measure: Measure) -> str:
    """The whole page, shaded by `measure` at first."""
    return (
        html_pages()
        .get_template("show.html.j2")
        .render(
            view=view,
            measure=measure,
            document=_page_data(view),
            KEY_GAIN=KEY_GAIN,
            KEY_LOGPROB=KEY_LOGPROB,
        )
    )


def rows(text: str) -> list[tuple[int, int]]:
    """Cut a text into lines, long ones at spaces; together they cover it exactly."""
    return [line.span() for line in _LINE.finditer(text)]


def _page_data(view: View) -> dict[str, Any]:
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
    known = sum(s.gain is not None for s in reading.segments)
    text = f"{reading.model}: {len(reading.segments)} segments, mean NLL {reading.mean_nll:.3f}"
    if reading.gain_condition:
        text += f", gain from {reading.gain_condition} for {known} of them, {keys} key tokens"
    return text
