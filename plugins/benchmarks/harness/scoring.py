"""Score a unit of requests, and return rows in the token schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from extract.scoring.statistics import Scored
from extract.unit_rows import columns_of_rows
from plugins.benchmarks.harness.encoding import Pair, PairEncoder
from plugins.benchmarks.harness.shared_prompts import requests_of
from plugins.benchmarks.harness.tasks import EvalRequest, EvalUnit
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.store.schema import TOKENS

if TYPE_CHECKING:
    from extract.scoring.engine import Engine

MOST_TOKENS = 256
"""Number of generated tokens if a task doesn't state it; the harness's default."""


@dataclass(frozen=True)
class ScoredRequests:
    """Rows of a unit, and their cost.

    Attributes:
        rows: in the schema TOKENS; `doc_id` is the unit, `segment` the request in it.
        requests: requests of the engine; a long text has several for one segment.
        results: results of these requests.
        wrong: item → reason why it can't be scored.
        cut: position of a request in the unit → number of tokens cut from its prompt; for a text
            in several windows, number of tokens before the last window.
    """

    rows: pa.Table
    requests: list[Request]
    results: list[Scored]
    wrong: dict[int, str] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Reasons why items of the unit failed, each with its items; empty if none failed."""
        by_reason: dict[str, list[int]] = {}
        for item, reason in self.wrong.items():
            by_reason.setdefault(reason, []).append(item)
        return "; ".join(f"{named_items(items)}: {reason}" for reason, items in by_reason.items())


def named_items(items: Sequence[int]) -> str:
    """`item 3`, `items 3, 5`, `items 0, 1, 2, 3, 4 and 27 more`."""
    named = ", ".join(map(str, items[:5]))
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return f"item{'s' if len(items) > 1 else ''} {named}{more}"


def score_unit(unit: EvalUnit, scorer: Engine, encoder: PairEncoder) -> ScoredRequests:
    """Score every token of a unit's continuations, texts and generations.

    An item that can't be scored has no rows; the other items keep theirs.

    Raises:
        TokenmartError: a request can't be scored here.
        NonFiniteLogits: the model produced NaN or infinite logits.
    """
    encoded = _Encoded({}, {})
    prompts = _prompts(unit, encoder, encoded)
    for segment, request in enumerate(unit.requests):
        with encoded.about(request):
            if request.kind == "loglikelihood":
                encoded.pairs[segment] = [encoder.pair(*map(str, request.arguments[:2]))]
            elif request.kind == "loglikelihood_rolling":
                encoded.pairs[segment] = encoder.rolling(str(request.arguments[0]))
            elif request.kind != "generate_until":
                raise TokenmartError(f"requests of kind {request.kind} can't be scored here")
    cut = {segment: max(p.cut for p in pairs) for segment, pairs in encoded.pairs.items() if pairs}
    cut |= {segment: prompt.cut for segment, prompt in prompts.items()}
    _write(unit, scorer, encoder, prompts, encoded)
    left = {s for s, r in enumerate(unit.requests) if _item(r) not in encoded.wrong}
    flat = [(s, pair) for s in sorted(encoded.pairs) if s in left for pair in encoded.pairs[s]]
    requests = requests_of(flat)
    results = list(scorer.score(requests)) if requests else []
    rows = TOKENS.empty_table()
    if requests:
        start, end = (
            np.concatenate([getattr(pair, name) for _, pair in flat])
            for name in ("char_start", "char_end")
        )
        rows = columns_of_rows(unit.number, requests, results, start, end)
    cut = {segment: tokens for segment, tokens in cut.items() if tokens and segment in left}
    return ScoredRequests(rows, requests, results, encoded.wrong, cut)


@dataclass
class _Encoded:
    """Tokenized requests by their position in the unit, and items without requests."""

    pairs: dict[int, list[Pair]]
    wrong: dict[int, str]

    @contextmanager
    def about(self, request: EvalRequest) -> Iterator[None]:
        """Record a failed request under its item, and continue."""
        try:
            yield
        except TokenmartError as error:
            self.wrong.setdefault(_item(request), error.format_message())


def _item(request: EvalRequest) -> int:
    return int(request.instance.doc_id)


@dataclass(frozen=True)
class _Prompt:
    """A prompt to continue, without its first `cut` tokens."""

    ids: Ids
    cut: int


def _prompts(unit: EvalUnit, encoder: PairEncoder, encoded: _Encoded) -> dict[int, _Prompt]:
    prompts = {}
    for segment, request in enumerate(unit.requests):
        if request.kind == "generate_until":
            most_tokens = int(_settings(request)["max_gen_toks"])
            with encoded.about(request):
                prompts[segment] = _Prompt(*encoder.prompt(str(request.arguments[0]), most_tokens))
    return {s: p for s, p in prompts.items() if _item(unit.requests[s]) not in encoded.wrong}


def _write(
    unit: EvalUnit,
    scorer: Engine,
    encoder: PairEncoder,
    prompts: dict[int, _Prompt],
    encoded: _Encoded,
) -> None:
    """Add the generated text of each request of a unit; empty answers have no pair."""
    if not prompts:
        return
    from extract.scoring.generation import Writing

    groups: dict[str, list[int]] = {}
    for segment in prompts:
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
        answers: list[Ids] = scorer.generate([prompts[s].ids for s in segments], writing)
        for segment, answer in zip(segments, answers, strict=True):
            kept = _up_to_stop(answer, writing.stops, encoder)
            prompt = prompts[segment]
            pair = [encoder.written(prompt.ids, kept, prompt.cut)] if len(kept) else []
            encoded.pairs[segment] = pair


def _settings(request: EvalRequest) -> dict[str, Any]:
    """Generation settings, with the harness's names and defaults."""
    from lm_eval.models.utils import normalize_gen_kwargs

    return dict(normalize_gen_kwargs(dict(request.arguments[1]), MOST_TOKENS))


def _up_to_stop(ids: Ids, stops: Sequence[str], encoder: PairEncoder) -> Ids:
    """Token ids up to the token that completes a stop text; later tokens are dropped."""
    text = encoder.decode(ids)
    if not any(stop in text for stop in stops if stop):
        return ids
    for count in range(1, len(ids)):
        written = encoder.decode(ids[:count])
        if any(stop in written for stop in stops if stop):
            return ids[:count]
    return ids


def answer_text(ids: Ids, request: EvalRequest, encoder: PairEncoder) -> str:
    """The text of a generation up to the first stop text."""
    text = encoder.decode(ids)
    for stop in _settings(request)["until"]:
        if stop:
            text = text.split(stop)[0]
    return text
