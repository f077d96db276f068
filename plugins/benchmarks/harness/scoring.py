"""A unit of requests through a scorer: tokens in, rows of the token schema out.

What prompts of a unit share goes through the model once: each choice its whole prompt, or all
prompts their examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from extract.backends.backend import Scored, Scorer
from extract.unit_rows import columns_of_rows
from plugins.benchmarks.harness.encoding import Pair, PairEncoder, TooLongError
from plugins.benchmarks.harness.tasks import EvalRequest, EvalUnit
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.store.schema import TOKENS

MOST_TOKENS = 256
"""Tokens written where a task doesn't say how many: the harness's default."""

LEAST_SAVING = 0.3
"""Share of the tokens that a prefix of all prompts must save: behind a cache a token takes longer
than in a plain text."""


@dataclass(frozen=True)
class ScoredRequests:
    """Rows of a unit, and what they cost.

    Attributes:
        rows: in the schema TOKENS; `doc_id` is the unit, `segment` the request in it.
        requests: what the engine ran, several for one segment where a text was long.
        results: theirs.
        wrong: item → why it can't be scored.
        skipped: item → how it is longer than the model reads.
        cut: request (its place in the unit) → tokens of its prompt that were cut; of a text in
            several windows, tokens before the last one.
    """

    rows: pa.Table
    requests: list[Request]
    results: list[Scored]
    wrong: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Why the unit is not whole, empty if it is: every wrong item, by what is wrong."""
        by_reason: dict[str, list[int]] = {}
        for item, reason in self.wrong.items():
            by_reason.setdefault(reason, []).append(item)
        return "; ".join(f"{named_items(items)}: {reason}" for reason, items in by_reason.items())


def named_items(items: Sequence[int]) -> str:
    """`item 3`, `items 3, 5`, `items 0, 1, 2, 3, 4 and 27 more`."""
    named = ", ".join(map(str, items[:5]))
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return f"item{'s' if len(items) > 1 else ''} {named}{more}"


def score_unit(unit: EvalUnit, scorer: Scorer, encoder: PairEncoder) -> ScoredRequests:
    """Score every token of a unit's continuations, texts and generations.

    An item that can't be scored leaves none of its rows, and the others theirs.

    Raises:
        TokenmartError: the backend can't do it.
        NonFiniteLogits: the model produced NaN or infinite logits.
    """
    found = _Encoded({}, {}, {}, {})
    prompts = _prompts(unit, encoder, found)
    for segment, request in enumerate(unit.requests):
        with found.about(request):
            if request.kind == "loglikelihood":
                found.pairs[segment] = [encoder.pair(*map(str, request.arguments[:2]))]
            elif request.kind == "loglikelihood_rolling":
                found.pairs[segment] = encoder.rolling(str(request.arguments[0]))
            elif request.kind != "generate_until":
                raise TokenmartError(f"requests of kind {request.kind} can't be scored here")
    cut = {segment: max(p.cut for p in pairs) for segment, pairs in found.pairs.items() if pairs}
    cut |= {segment: prompt.cut for segment, prompt in prompts.items()}
    _write(unit, scorer, encoder, prompts, found)
    left = {s for s, r in enumerate(unit.requests) if _item(r) not in found.missing}
    flat = [(s, pair) for s in sorted(found.pairs) if s in left for pair in found.pairs[s]]
    requests = requests_of([pair for pair in flat if pair[0] not in found.scored])
    results = list(scorer.score(requests)) if requests else []
    for at, (segment, pair) in enumerate(flat):
        if segment in found.scored:
            requests.insert(at, pair.request(segment, 0))
            results.insert(at, found.scored[segment])
    rows = TOKENS.empty_table()
    if requests:
        start, end = (
            np.concatenate([getattr(pair, name) for _, pair in flat])
            for name in ("char_start", "char_end")
        )
        rows = columns_of_rows(unit.number, requests, results, start, end)
    cut = {segment: tokens for segment, tokens in cut.items() if tokens and segment in left}
    return ScoredRequests(rows, requests, results, found.wrong, found.skipped, cut)


@dataclass
class _Encoded:
    """Requests in tokens, by their place in the unit, and items that have none.

    `scored` has the statistics of answers that were scored as they were written.
    """

    pairs: dict[int, list[Pair]]
    scored: dict[int, Scored]
    wrong: dict[int, str]
    skipped: dict[int, str]

    @property
    def missing(self) -> set[int]:
        return {*self.wrong, *self.skipped}

    @contextmanager
    def about(self, request: EvalRequest) -> Iterator[None]:
        """Note what is wrong with a request under its item, and go on."""
        try:
            yield
        except TooLongError as error:
            self.skipped[_item(request)] = error.format_message()
        except TokenmartError as error:
            self.wrong.setdefault(_item(request), error.format_message())


def _item(request: EvalRequest) -> int:
    return int(request.instance.doc_id)


@dataclass(frozen=True)
class _Prompt:
    """A prompt to write behind; `cut` tokens of it are left out."""

    ids: Ids
    cut: int


def _prompts(unit: EvalUnit, encoder: PairEncoder, found: _Encoded) -> dict[int, _Prompt]:
    prompts = {}
    for segment, request in enumerate(unit.requests):
        if request.kind == "generate_until":
            most_tokens = int(_settings(request)["max_gen_toks"])
            with found.about(request):
                prompts[segment] = _Prompt(*encoder.prompt(str(request.arguments[0]), most_tokens))
    return {s: p for s, p in prompts.items() if _item(unit.requests[s]) not in found.missing}


def _write(
    unit: EvalUnit,
    scorer: Scorer,
    encoder: PairEncoder,
    prompts: dict[int, _Prompt],
    found: _Encoded,
) -> None:
    """Add what the model writes for each generation of a unit; empty answers have no pair."""
    if not prompts:
        return
    write = getattr(scorer, "generate", None)
    if write is None:
        raise TokenmartError("this backend writes no text; use --backend transformers")
    from extract.scoring.generation import Answer, Writing

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
        answers: list[Answer] = write([prompts[s].ids for s in segments], writing)
        for segment, answer in zip(segments, answers, strict=True):
            kept = _up_to_stop(answer.ids, writing.stops, encoder)
            prompt = prompts[segment]
            pair = [encoder.written(prompt.ids, kept, prompt.cut)] if len(kept) else []
            found.pairs[segment] = pair
            if answer.scores is not None:
                tokens = len(prompt.ids) + len(answer.ids)
                found.scored[segment] = Scored(answer.scores.first(len(kept)), tokens)


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


def requests_of(pairs: Sequence[tuple[int, Pair]]) -> list[Request]:
    """Requests of the engine for segments and their pairs, in their order.

    Prompts of one unit often begin with the same worked examples. Where that saves most tokens,
    they are the prefix of all requests; else a prompt is that of its choices.
    """
    contexts = {pair.context.tobytes(): pair.context for _, pair in pairs}
    common = common_tokens(list(contexts.values()))
    stems = {(p.context.tobytes(), p.continuation[:-1].tobytes()): p for _, p in pairs}.values()
    behind_prompts = sum(map(len, contexts.values())) + sum(len(p.continuation) - 1 for p in stems)
    behind_common = common + sum(len(p.context) - common + len(p.continuation) - 1 for p in stems)
    if behind_common <= (1 - LEAST_SAVING) * behind_prompts:
        return [pair.request(segment, common) for segment, pair in pairs]
    times = Counter(pair.context.tobytes() for _, pair in pairs)
    # texts behind a BOS alone have nothing to share
    alone = {text for text, context in contexts.items() if times[text] == 1 or len(context) == 1}
    return [
        pair.request(segment, 0 if pair.context.tobytes() in alone else len(pair.context))
        for segment, pair in pairs
    ]


def common_tokens(contexts: Sequence[Ids]) -> int:
    """How many tokens all contexts begin with."""
    if not contexts:
        return 0
    length = min(map(len, contexts))
    together = np.stack([context[:length] for context in contexts])
    differs = (together != together[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else length
