"""One document's tokens under one or two models, read from the store.

A segment is a stretch of text with numbers: usually one token. Tokens that share characters
(bytes of one character) or have none become one segment whose log-probs add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import TokenmartError
from warehouse.problem.spec import Problem
from warehouse.sql.connection import connect_for_queries

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.models import ModelSpec
    from warehouse.problem.problem_files import Ranked, RankedModel

KEY_GAIN = 2.0
KEY_LOGPROB = -2.0
"""LongPPL's key tokens: gain above the first, log-prob above the second, in nats."""


@dataclass(frozen=True)
class Segment:
    """Characters `start` to `end` and what the model made of them.

    logprob, entropy: nats; gain: nats won by the far context, None where it wasn't measured;
    rank: the worst among the segment's tokens; tokens: how many; position: of the first.
    entropy and rank are None where imported log-probs lack them.
    """

    start: int
    end: int
    logprob: float
    entropy: float | None
    rank: int | None
    gain: float | None
    tokens: int
    position: int

    @property
    def is_key(self) -> bool:
        """Whether it is a key token in LongPPL's sense."""
        return self.gain is not None and self.gain > KEY_GAIN and self.logprob > KEY_LOGPROB


@dataclass(frozen=True)
class ScoredText:
    """One model's scores of a document's tokens.

    Of the document's `tokens_whole` it read `tokens_read`, up to character `read_to`.
    """

    model: str
    segments: tuple[Segment, ...]
    gain_condition: str | None
    tokens_read: int = 0
    tokens_whole: int = 0
    read_to: int = 0

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
    """A document and its scores; `text` is the part from character `start`.

    `characters` are those of the document.
    """

    problem: str
    doc_id: int
    name: str
    start: int
    text: str
    scored: tuple[ScoredText, ...]
    characters: int = 0

    @property
    def title(self) -> str:
        """The document."""
        return f"{self.name} (document {self.doc_id} of {self.problem})"

    @property
    def extent(self) -> str:
        """How much of the document is shown, and how much of it each model read."""
        text = (
            f"Characters {self.start:,} to {self.start + len(self.text):,} of {self.characters:,}"
        )
        for scores in self.scored:
            read = f"{scores.tokens_read:,} of {scores.tokens_whole:,} tokens"
            text += f"; {scores.model} read {read}, to character {scores.read_to:,}"
        return text


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
    if len(models) > 2:
        raise TokenmartError(
            f"--model: give one model or two, not {len(models)}",
            code="too-many-models",
            where="--model",
        )
    chosen = [_model(problem, name) for name in models]
    with connect_for_queries(workspace) as connection:
        doc_id, name, text = _document(connection, problem.name, document)
        if not 0 <= start < len(text):
            raise TokenmartError(
                f"--start {start}: {name} has characters 0 to {len(text) - 1}; choose one of them",
                code="start-outside-document",
                where="--start",
            )
        end = len(text) if characters is None else min(len(text), start + characters)
        scored = tuple(
            _scores(connection, problem, model, doc_id, start, end, condition) for model in chosen
        )
    if characters is None:
        end = max(segment.end for scores in scored for segment in scores.segments)
    return View(
        problem=problem.name,
        doc_id=doc_id,
        name=name,
        start=start,
        text=text[start:end],
        scored=scored,
        characters=len(text),
    )


def example_view(
    problem: Ranked, workspace: Workspace, models: Sequence[RankedModel], characters: int
) -> View | None:
    """The beginning of the first document under the first model and the last one.

    None where there are no documents, or where nothing of it was extracted for them.
    """
    if not isinstance(problem, Problem):
        return None
    ends = list(dict.fromkeys((models[0].full_id, models[-1].full_id)))
    try:
        return load_view(problem, workspace, "0", ends, 0, characters)
    except TokenmartError as error:
        if error.code in ("nothing-extracted", "unknown-document"):
            return None
        raise


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
            entropy=None
            if last.entropy is None or token.entropy is None
            else last.entropy + token.entropy,
            rank=None if last.rank is None or token.rank is None else max(last.rank, token.rank),
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
        raise TokenmartError(
            f"--document {document}: no such document of {problem} is extracted; `tokenmart sql "
            f"\"select doc_id, name from documents where problem = '{problem}'\"` lists them",
            code="unknown-document",
            where="--document",
        )
    doc_id, name, text = rows[0]
    return int(doc_id), str(name), str(text)


def _scores(
    connection: duckdb.DuckDBPyConnection,
    problem: Problem,
    model: ModelSpec,
    doc_id: int,
    start: int,
    end: int,
    condition: str | None,
) -> ScoredText:
    of_model = {"problem": problem.name, "model": model.model_id, "document": doc_id}
    rows = connection.execute(
        "select char_start, char_end, logprob, entropy, rank, position from tokens"
        " where problem = $problem and model_id = $model and doc_id = $document"
        " and char_end >= $start and char_start < $end and condition = coalesce("
        "(select any_value(condition) from units where problem = $problem"
        " and model_id = $model and condition_kind = 'full'), 'full') order by position",
        of_model | {"start": start, "end": end},
    ).fetchall()
    [extent] = connection.execute(
        "select coalesce(max(document_tokens), 0), coalesce(max(document_tokens_total), 0),"
        " (select max(char_end) from tokens where problem = $problem and model_id = $model"
        " and doc_id = $document) from units where problem = $problem and model_id = $model"
        " and doc_id = $document and condition_kind = 'full' and status = 'done'",
        of_model,
    ).fetchall()
    gain_condition, gains = _gains(connection, problem.name, model.model_id, doc_id, condition)
    segments = merge(
        Segment(first, last, logprob, entropy, rank, gain, 1, position)
        for first, last, logprob, entropy, rank, position in rows
        for gain in (gains.get(position),)
    )
    shown = tuple(segment for segment in segments if segment.end > start and segment.start < end)
    if not shown:
        raise TokenmartError(
            f"{model.full_id}: nothing extracted for document {doc_id} in characters {start} to "
            f"{end}; run `tokenmart extract --problem {problem.argument} --model {model.full_id}`",
            code="nothing-extracted",
            where=f"{model.full_id}, document {doc_id}",
        )
    return ScoredText(model.full_id, shown, gain_condition, *extent)


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
            "select pair, position, short_nll - nll from fct_tokens where short_nll is not null"
            " and problem = ? and model_id = ? and doc_id = ? order by pair",
            [problem, model_id, doc_id],
        ).fetchall()
    except duckdb.CatalogException:
        rows = []
    pairs = list(dict.fromkeys(name for name, _, _ in rows))
    if condition is not None and condition not in pairs:
        raise TokenmartError(
            f"--condition {condition}: no gain from it for {model_id} in document {doc_id}; "
            f"there is {', '.join(pairs) or 'none'}",
            code="no-gain",
            where="--condition",
        )
    chosen = condition or next(iter(pairs), None)
    return chosen, {position: gain for name, position, gain in rows if name == chosen}
