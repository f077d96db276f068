"""One document's tokens under one or two models, ready to be shaded.

A segment is a stretch of text with numbers: usually one token. Tokens that share characters
(bytes of one character) or have none become one segment whose log-probs add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from warehouse.errors import TokenmartError

if TYPE_CHECKING:
    import duckdb

    from warehouse.paths import Workspace
    from warehouse.problem.models import ModelSpec
    from warehouse.problem.spec import Problem

Measure = Literal["logprob", "gain", "rank"]
KEY_GAIN = 2.0
KEY_LOGPROB = -2.0
"""LongPPL's key tokens: gain above the first, log-prob above the second, in nats."""


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

    @property
    def tokens_with_gain(self) -> int:
        """Number of tokens with a gain."""
        return sum(segment.tokens for segment in self.segments if segment.gain is not None)


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
    from warehouse.sql.connection import connect_for_queries

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
    starts = [
        segment.start
        for reading in view.readings
        for segment in reading.segments
        if segment.gain is not None
    ]
    return min(starts, default=view.start)


def merge(rows: list[tuple[int, int, float, float, int, float | None, int]]) -> list[Segment]:
    """Rows of one token each, in order of position, into segments that don't overlap.

    Args:
        rows: (char_start, char_end, logprob, entropy, rank, gain, position).
    """
    segments: list[Segment] = []
    for start, end, logprob, entropy, rank, gain, position in rows:
        last = segments[-1] if segments else None
        if last is None or (start >= last.end and end > start):
            segments.append(Segment(start, end, logprob, entropy, rank, gain, 1, position))
            continue
        gains = [value for value in (last.gain, gain) if value is not None]
        segments[-1] = Segment(
            start=last.start,
            end=max(last.end, end),
            logprob=last.logprob + logprob,
            entropy=last.entropy + entropy,
            rank=max(last.rank, rank),
            gain=sum(gains) if gains else None,
            tokens=last.tokens + 1,
            position=last.position,
        )
    return segments


def _model(problem: Problem, name: str) -> ModelSpec:
    exact = [model for model in problem.models if name in (model.full_id, model.model_id)]
    found = exact or [model for model in problem.models if model.full_id.endswith(f"/{name}")]
    if len(found) != 1:
        known = ", ".join(model.full_id for model in problem.models)
        raise TokenmartError(f"--model {name}: no such model in {problem.name}; there are {known}")
    return found[0]


def _document(
    connection: duckdb.DuckDBPyConnection, problem: str, document: str
) -> tuple[int, str, str]:
    rows = connection.execute(
        "select doc_id, name, text from documents where problem = ?"
        " and (name = ? or cast(doc_id as varchar) = ?) order by doc_id",
        [problem, document, document],
    ).fetchall()
    if not rows:
        known = connection.execute(
            "select count(*), min(doc_id), max(doc_id) from documents where problem = ?", [problem]
        ).fetchone()
        if known is None or not known[0]:
            raise TokenmartError(
                f"{problem}: no documents yet; run `tokenmart extract --problem {problem}`"
            )
        raise TokenmartError(
            f"--document {document}: no such document in {problem}; give a name or an id from "
            f"{known[1]} to {known[2]}"
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
    full = connection.execute(
        "select condition from units where problem = ? and model_id = ?"
        " and condition_kind = 'full' limit 1",
        [problem, model.model_id],
    ).fetchone()
    rows = connection.execute(
        "select char_start, char_end, logprob, entropy, rank, position from tokens"
        " where problem = ? and model_id = ? and condition = ? and doc_id = ?"
        " and char_end >= ? and char_start < ? order by position",
        [problem, model.model_id, full[0] if full else "full", doc_id, start, end],
    ).fetchall()
    if not rows:
        raise TokenmartError(
            f"{model.full_id}: nothing extracted for document {doc_id} in characters {start} to "
            f"{end}; run `tokenmart extract --problem {problem} --model {model.full_id}`"
        )
    gain_condition, gains = _gains(connection, problem, model.model_id, doc_id, condition)
    segments = merge(
        [
            (first, last, logprob, entropy, rank, gains.get(position), position)
            for first, last, logprob, entropy, rank, position in rows
        ]
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
    known = connection.execute(
        "select count(*) from information_schema.tables where table_name = 'context_pairs'"
    ).fetchone()
    if known is None or not known[0]:
        return None, {}
    conditions = [
        row[0]
        for row in connection.execute(
            "select distinct condition from context_pairs where problem = ? and model_id = ?"
            " order by condition",
            [problem, model_id],
        ).fetchall()
    ]
    if condition is not None and condition not in conditions:
        raise TokenmartError(
            f"--condition {condition}: no gain from it for {model_id}; "
            f"there is {', '.join(conditions) or 'none'}"
        )
    if not conditions:
        return None, {}
    chosen = condition or conditions[0]
    rows = connection.execute(
        "select position, gain from context_pairs"
        " where problem = ? and model_id = ? and condition = ? and doc_id = ?",
        [problem, model_id, chosen, doc_id],
    ).fetchall()
    return chosen, dict(rows)
