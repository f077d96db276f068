"""Questions in one model's tokens, and what it answered.

At every length n the model is asked, after the first n tokens of a context, for every fact stated
so far; answers are scored with the true tokens fed in (teacher-forced). A context is run once: the
questions at all lengths continue its one KV cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from extract.backends.backend import Scored, Scorer
from extract.recall.contexts import RIVALS, Context, Question
from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.problem.spec import RecallTarget
from warehouse.store.schema import DOWNSTREAM, RECALL_ITEMS

TASK_NAMES = {"single_key": "recall"}
"""Name of a task in the table of scores, if it isn't its own."""
CONTROL = "no_key"
"""The task of questions after names that were never planted."""


@dataclass(frozen=True)
class Asked:
    """A question at one length of one context; `item` numbers all of a target from 0."""

    item: int
    context: int
    length: int
    question: Question

    @property
    def task(self) -> str:
        """Its task in the table of scores: a length of a task is a task of its own there."""
        name = CONTROL if self.question.control else self.question.task
        return f"{TASK_NAMES.get(name, name)}_{self.length}"


@dataclass(frozen=True)
class Item:
    """A question in one model's tokens."""

    asked: Asked
    request: Request


def asked_in(target: RecallTarget, contexts: Sequence[Context]) -> list[Asked]:
    """Everything that is asked, context by context and length by length."""
    found: list[Asked] = []
    for number, context in enumerate(contexts):
        for length in target.lengths:
            blocks = length // target.key_every
            answerable = [q for q in context.questions if q.block < blocks]
            kept = set(_spread([q for q in answerable if q.rival], RIVALS))
            absent = [q for q in context.controls if q.block < blocks]
            asked = [q for q in answerable if not q.rival or q in kept]
            asked += _spread(absent, target.control_keys)
            found += [
                Asked(len(found) + place, number, length, question)
                for place, question in enumerate(asked)
            ]
    return found


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    """At most this number of them, evenly from first to last."""
    places = np.linspace(0, len(questions) - 1, min(most, len(questions))).round().astype(int)
    return [questions[place] for place in places]


def build_items(
    target: RecallTarget, contexts: Sequence[Context], tokenizer: DocumentTokenizer, first: int = 0
) -> Iterator[tuple[int, list[Item]]]:
    """Number of each context from `first` on, and its questions in one model's tokens.

    Raises:
        TokenmartError: a sentence is longer than its block.
    """
    everything = asked_in(target, contexts)
    for number, context in enumerate(contexts[first:], start=first):
        prefix = _prefix(target, context, tokenizer)
        asked_here = (*context.questions, *context.controls)
        encoded = {each: _question(each, tokenizer) for each in asked_here}
        items = []
        for asked in (each for each in everything if each.context == number):
            ids, start = encoded[asked.question]
            answers = np.zeros(len(ids) - start, dtype=np.int32)
            request = Request(
                segment=number,
                ids=ids,
                first_target=start,
                positions=answers,
                context_tokens=answers,
                prefix=prefix,
                prefix_length=asked.length,
            )
            items.append(Item(asked, request))
        yield number, items


def _prefix(target: RecallTarget, context: Context, tokenizer: DocumentTokenizer) -> Ids:
    filler = tokenizer.encode(context.filler).ids
    pieces: list[Ids] = []
    used = 0
    for index, (text, offset) in enumerate(zip(context.facts, context.offsets, strict=True)):
        fact = tokenizer.encode(text).ids
        room = target.key_every - len(fact)
        if index == 0 and tokenizer.bos is not None:
            pieces.append(np.array([tokenizer.bos], dtype=np.int32))
            room -= 1
        if room < 1:
            raise TokenmartError(
                f"target.key_every {target.key_every}: a sentence takes {len(fact)} tokens; "
                "raise it"
            )
        before = int(offset * room)
        pieces += [filler[used : used + before], fact, filler[used + before : used + room]]
        used += room
    return np.concatenate(pieces).astype(np.int32)


def _question(question: Question, tokenizer: DocumentTokenizer) -> tuple[Ids, int]:
    """Ids of a question with its answer, and where the answer's tokens begin."""
    encoded = tokenizer.encode(question.text)
    inside = encoded.char_end > len(question.prompt)
    return encoded.ids, int(np.argmax(inside))


def score_items(scorer: Scorer, items: Sequence[Item], target: RecallTarget) -> pa.Table:
    """Run the questions; one row per item in the DOWNSTREAM schema, none for a rival.

    For a word that is in every list, `token_accuracy` is the share of rivals that are less
    probable (equal ones count half: the area under the ROC curve) and `exact_match` whether all
    are. Probabilities are those of the whole word, whatever its number of tokens.
    """
    results = list(scorer.score([item.request for item in items]))
    rivals: dict[tuple[int, int], list[float]] = defaultdict(list)
    for item, result in zip(items, results, strict=True):
        if item.asked.question.rival:
            asked = item.asked
            rivals[asked.context, asked.length].append(float(result.scores.logprob.sum()))
    rows: list[dict[str, Any]] = []
    for item, result in zip(items, results, strict=True):
        asked = item.asked
        if asked.question.rival:
            continue
        against = rivals[asked.context, asked.length] if asked.question.everywhere else None
        measures = _measures(result, against)
        rows.append(
            {
                "task": asked.task,
                "item": asked.item,
                "cluster": asked.context,
                "context_tokens": asked.length,
                "score": measures[_scored_by(target, asked.question)],
                **measures,
            }
        )
    return pa.Table.from_pylist(rows, schema=DOWNSTREAM)


def _scored_by(target: RecallTarget, question: Question) -> str:
    """A word that is in every list has no digits: there is no first digit to score."""
    words = question.everywhere and target.score == "first_token"
    return "token_accuracy" if words else target.score


def _measures(result: Scored, rivals: Sequence[float] | None) -> dict[str, float | None]:
    right = result.scores.rank == 1
    if rivals is not None:
        own = float(result.scores.logprob.sum())
        right = np.array([(own > other) + (own == other) / 2 for other in rivals])
    return {
        "exact_match": float((right == 1).all()),
        "token_accuracy": float(right.mean()),
        "answer_nll": float(-result.scores.logprob.mean()),
        "first_token": None if rivals is not None else float(right[0]),
    }


def describe_items(target: RecallTarget, contexts: Sequence[Context]) -> pa.Table:
    """The question of each item, the same for every model: a row in the RECALL_ITEMS schema."""
    counted = target.counted_lengths
    rows = []
    for asked in asked_in(target, contexts):
        question = asked.question
        if question.rival:
            continue
        place = question.block + contexts[asked.context].offsets[question.block]
        depth = place / (asked.length // target.key_every)
        rows.append(
            {
                "task": asked.task,
                "item": asked.item,
                "kind": CONTROL if question.control else question.task,
                "length": asked.length,
                "depth": None if question.everywhere else depth,
                "counts": asked.length in counted and not question.control,
            }
        )
    return pa.Table.from_pylist(rows, schema=RECALL_ITEMS)
