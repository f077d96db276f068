"""Questions in one model's tokens, and what it answered.

At every length n the model is asked, after the first n tokens of a context, for every fact stated
so far; answers are scored with the true tokens fed in (teacher-forced). A context is run once: the
questions at all lengths continue its one KV cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from extract.recall.contexts import RIVALS, Context, Question, impossible
from extract.scoring.statistics import Scored
from extract.tokenization import DocumentTokenizer
from warehouse.probes.request import Ids, Request
from warehouse.problem.spec import RecallTarget
from warehouse.store.schema import DOWNSTREAM, RECALL_ITEMS

if TYPE_CHECKING:
    from extract.scoring.engine import Engine

TASK_NAMES = {"single_key": "recall"}
"""Name of a task in the table of scores, if it isn't its own."""
CONTROL = "no_key"
"""The task of questions after names that were never planted."""


@dataclass(frozen=True)
class Item:
    """A question at one length of one context; `number` counts all items of a target from 0."""

    number: int
    context: int
    length: int
    question: Question

    @property
    def task(self) -> str:
        """Name of its task in the table of scores, where each length is a task."""
        name = CONTROL if self.question.control else self.question.task
        return f"{TASK_NAMES.get(name, name)}_{self.length}"


@dataclass(frozen=True)
class EncodedItem:
    """An item in one model's tokens."""

    item: Item
    request: Request


def items_of(target: RecallTarget, contexts: Sequence[Context]) -> list[Item]:
    """All items, context by context and length by length."""
    items: list[Item] = []
    for number, context in enumerate(contexts):
        for length in target.lengths:
            blocks = length // target.key_every
            questions = [q for q in context.questions if q.block < blocks]
            rivals = set(_spread([q for q in questions if q.rival], RIVALS))
            kept = [q for q in questions if not q.rival or q in rivals]
            controls = [q for q in context.controls if q.block < blocks]
            for question in [*kept, *_spread(controls, target.control_keys)]:
                items.append(Item(len(items), number, length, question))
    return items


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    """At most this number of them, evenly from first to last."""
    places = np.linspace(0, len(questions) - 1, min(most, len(questions))).round().astype(int)
    return [questions[place] for place in places]


def encoded_items(
    target: RecallTarget, contexts: Sequence[Context], tokenizer: DocumentTokenizer, first: int = 0
) -> Iterator[tuple[int, list[EncodedItem]]]:
    """Number of each context from `first` on, and its items in one model's tokens.

    Raises:
        TokenmartError: a sentence is longer than its block.
    """
    items = items_of(target, contexts)
    for number, context in enumerate(contexts[first:], start=first):
        prefix = _prefix(target, context, tokenizer)
        encoded = {q: _question(q, tokenizer) for q in (*context.questions, *context.controls)}
        of_context = []
        for item in items:
            if item.context != number:
                continue
            ids, start = encoded[item.question]
            nowhere = np.zeros(len(ids) - start, dtype=np.int32)
            request = Request(number, ids, start, nowhere, nowhere, prefix, item.length)
            of_context.append(EncodedItem(item, request))
        yield number, of_context


def _prefix(target: RecallTarget, context: Context, tokenizer: DocumentTokenizer) -> Ids:
    filler = tokenizer.encode(context.filler).ids
    pieces: list[Ids] = []
    used = 0
    for index, (text, offset) in enumerate(zip(context.facts, context.offsets, strict=True)):
        fact = tokenizer.encode(text).ids
        filler_tokens = target.key_every - len(fact)
        if index == 0 and tokenizer.bos is not None:
            pieces.append(np.array([tokenizer.bos], dtype=np.int32))
            filler_tokens -= 1
        if filler_tokens < 1:
            raise impossible(
                "target.key_every",
                f"{target.key_every}: a sentence takes {len(fact)} tokens; raise it",
            )
        before = int(offset * filler_tokens)
        end = used + filler_tokens
        pieces += [filler[used : used + before], fact, filler[used + before : end]]
        used = end
    return np.concatenate(pieces).astype(np.int32)


def _question(question: Question, tokenizer: DocumentTokenizer) -> tuple[Ids, int]:
    """Ids of a question with its answer, and where the answer's tokens begin."""
    encoded = tokenizer.encode(question.text)
    inside = encoded.char_end > len(question.prompt)
    return encoded.ids, int(np.argmax(inside))


def score_items(scorer: Engine, encoded: Sequence[EncodedItem], target: RecallTarget) -> pa.Table:
    """Run the questions; one row per item in the DOWNSTREAM schema, none for a rival.

    For a word that is in every list, `token_accuracy` is the share of rivals that are less
    probable (equal ones count half: the area under the ROC curve) and `exact_match` whether all
    are. Probabilities are those of the whole word, whatever its number of tokens.
    """
    results = list(scorer.score([item.request for item in encoded]))
    pairs = [(asked.item, result) for asked, result in zip(encoded, results, strict=True)]
    rivals: dict[tuple[int, int], list[float]] = defaultdict(list)
    for item, result in pairs:
        if item.question.rival:
            rivals[item.context, item.length].append(float(result.scores.logprob.sum()))
    rows: list[dict[str, Any]] = []
    for item, result in pairs:
        question = item.question
        if question.rival:
            continue
        measures = _measures(
            result, rivals[item.context, item.length] if question.everywhere else None
        )
        # a word that is in every list has no digits: there is no first digit to score
        words = question.everywhere and target.score == "first_token"
        rows.append(
            {
                "task": item.task,
                "item": item.number,
                "cluster": item.context,
                "context_tokens": item.length,
                "score": measures["token_accuracy" if words else target.score],
                **measures,
            }
        )
    return pa.Table.from_pylist(rows, schema=DOWNSTREAM)


def _measures(result: Scored, rivals: Sequence[float] | None) -> dict[str, float | None]:
    right = result.scores.rank == 1
    if rivals is not None:
        right_answer = float(result.scores.logprob.sum())
        right = np.array([(right_answer > other) + (right_answer == other) / 2 for other in rivals])
    return {
        "exact_match": float((right == 1).all()),
        "token_accuracy": float(right.mean()),
        "answer_nll": float(-result.scores.logprob.mean()),
        "first_token": None if rivals is not None else float(right[0]),
    }


def describe_items(target: RecallTarget, contexts: Sequence[Context]) -> pa.Table:
    """The question of each item, the same for every model: a row in the RECALL_ITEMS schema."""
    rows = []
    for item in items_of(target, contexts):
        question = item.question
        place = question.block + contexts[item.context].offsets[question.block]
        if not question.rival:
            rows.append(
                {
                    "task": item.task,
                    "item": item.number,
                    "kind": CONTROL if question.control else question.task,
                    "length": item.length,
                    "depth": None
                    if question.everywhere
                    else place / (item.length // target.key_every),
                    "counts": item.length in target.counted_lengths and not question.control,
                }
            )
    return pa.Table.from_pylist(rows, schema=RECALL_ITEMS)
