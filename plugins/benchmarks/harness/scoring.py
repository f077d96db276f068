"""A unit of requests through a scorer: tokens in, rows of the token schema out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from extract.backends.backend import Scorer
from extract.token_scores import Scored
from extract.unit_rows import columns_of_rows
from plugins.benchmarks.harness.encoding import Pair, PairEncoder
from plugins.benchmarks.harness.tasks import EvalRequest, EvalUnit
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request

MOST_TOKENS = 256
"""Tokens written where a task doesn't say how many: the harness's default."""


@dataclass(frozen=True)
class ScoredRequests:
    """Rows of a unit, and what they cost.

    Attributes:
        rows: in the schema TOKENS; `doc_id` is the unit, `segment` the request in it.
        requests: what the engine ran, several for one segment where a text was long.
        results: theirs.
    """

    rows: pa.Table
    requests: list[Request]
    results: list[Scored]


def score_unit(unit: EvalUnit, scorer: Scorer, encoder: PairEncoder) -> ScoredRequests:
    """Score every token of a unit's continuations, texts and generations.

    Raises:
        TokenmartError: a request can't be scored; the message names it.
        NonFiniteLogits: the model produced NaN or infinite logits.
    """
    pairs = _written(unit, scorer, encoder)
    for segment, request in enumerate(unit.requests):
        with _about(request):
            if request.kind == "loglikelihood":
                pairs[segment] = [encoder.pair(*map(str, request.arguments[:2]))]
            elif request.kind == "loglikelihood_rolling":
                pairs[segment] = encoder.rolling(str(request.arguments[0]))
            elif request.kind != "generate_until":
                raise TokenmartError(f"requests of kind {request.kind} can't be scored here")
    flat = [(segment, pair) for segment in sorted(pairs) for pair in pairs[segment]]
    prompts = Counter(pair.context.tobytes() for _, pair in flat)
    requests = [
        pair.request(segment, shares_context=prompts[pair.context.tobytes()] > 1)
        for segment, pair in flat
    ]
    results = list(scorer.score(requests))
    start, end = (
        np.concatenate([np.zeros(0, np.int32), *(getattr(pair, name) for _, pair in flat)])
        for name in ("char_start", "char_end")
    )
    rows = columns_of_rows(unit.number, requests, results, start, end)
    return ScoredRequests(rows, requests, results)


@contextmanager
def _about(request: EvalRequest) -> Iterator[None]:
    """Put the item in front of what is wrong with its request."""
    try:
        yield
    except TokenmartError as error:
        number = request.instance.doc_id
        raise TokenmartError(f"item {number}: {error.format_message()}") from error


def _written(unit: EvalUnit, scorer: Scorer, encoder: PairEncoder) -> dict[int, list[Pair]]:
    """What the model writes for each generation of a unit; empty answers have no pair."""
    wanted = [s for s, request in enumerate(unit.requests) if request.kind == "generate_until"]
    if not wanted:
        return {}
    write = getattr(scorer, "generate", None)
    if write is None:
        raise TokenmartError("this backend writes no text; use --backend transformers")
    from extract.scoring.generation import Writing

    found: dict[int, list[Pair]] = {}
    groups: dict[str, list[int]] = {}
    for segment in wanted:
        groups.setdefault(repr(_settings(unit.requests[segment])), []).append(segment)
    for segments in groups.values():
        settings = _settings(unit.requests[segments[0]])
        writing = Writing(
            tokenizer=encoder.tokenizer.library,
            most_tokens=settings.pop("max_gen_toks"),
            stops=tuple(settings.pop("until")),
            options=settings,
            seed=unit.number,
        )
        with _about(unit.requests[segments[0]]):
            prompts = [
                encoder.prompt(str(unit.requests[s].arguments[0]), writing.most_tokens)
                for s in segments
            ]
        answers: list[Ids] = write(prompts, writing)
        for segment, prompt, answer in zip(segments, prompts, answers, strict=True):
            kept = _up_to_stop(answer, writing.stops, encoder)
            found[segment] = [encoder.written(prompt, kept)] if len(kept) else []
    return found


def _settings(request: EvalRequest) -> dict[str, Any]:
    """Generation settings with the harness's defaults and names."""
    from lm_eval.models.utils import normalize_gen_kwargs

    return dict(normalize_gen_kwargs(dict(request.arguments[1]), MOST_TOKENS))


def _up_to_stop(ids: Ids, stops: Sequence[str], encoder: PairEncoder) -> Ids:
    """Ids up to the token that completes a stop text; what was written behind it is dropped."""
    text = encoder.decode(ids)
    if not any(stop in text for stop in stops if stop):
        return ids
    for count in range(1, len(ids)):
        written = encoder.decode(ids[:count])
        if any(stop in written for stop in stops if stop):
            return ids[:count]
    return ids


def answer_text(ids: Ids, request: EvalRequest, encoder: PairEncoder) -> str:
    """What a generation counts as: its text up to the first stop text."""
    text = encoder.decode(ids)
    for stop in _settings(request)["until"]:
        if stop:
            text = text.split(stop)[0]
    return text
