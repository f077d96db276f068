"""The measured target: key-value recall over long contexts, in the manner of RULER.

A context is filler text with sentences that give a number to a name, one hidden in each block
of `key_every` tokens. At every length n the model is asked, after the first n tokens, for each
number seen so far; answers are scored with the true digits fed in (teacher-forced). A context
is run once: the questions at all lengths branch off its one KV cache.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from extract.backends.backend import Scorer
from extract.planning.plan import ModelPlan, describe_corrections, describe_interventions
from extract.scoring.numerics import ENGINE_VERSION
from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Ids, Request
from warehouse.problem.spec import Problem, RecallTarget
from warehouse.store.ledger import fingerprint
from warehouse.store.schema import DOWNSTREAM
from warehouse.store.token_files import write_table

FINGERPRINT_KEY = b"tokenmart.fingerprint"
RECALL_VERSION = 1
USABLE_CONTEXTS = 9
"""Contexts from which on a score's standard error is itself known to a quarter."""

ADJECTIVES = tuple(
    """amber brave calm dusty eager frozen gentle hollow ivory jolly keen lively mellow narrow
    olive patient quiet rusty silver tender upper violet warm yellow zealous bright copper
    distant early faded golden humble""".split()  # noqa: SIM905
)
NOUNS = tuple(
    """anchor basket candle desert engine forest garden harbor island jacket kettle ladder
    mirror needle orchard pencil quarry river saddle temple umbrella valley window yard
    bridge castle drum falcon glacier hammer lantern meadow""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Context:
    """One context's content, the same text for every tokenizer: filler, names and numbers."""

    filler: str
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    offsets: tuple[float, ...]


@dataclass(frozen=True)
class Item:
    """One question: which context and length it belongs to, and its request."""

    length: int
    context: int
    request: Request


def standard_error_note(contexts: int) -> str:
    """What so few contexts leave of the scores' standard errors; empty where they are enough.

    A standard error from C independent contexts has itself a relative error of about
    1 / sqrt(2 (C - 1)), as that of any standard deviation.
    """
    if contexts >= USABLE_CONTEXTS:
        return ""
    known = (
        f"known to about ±{1 / math.sqrt(2 * (contexts - 1)):.0%} only"
        if contexts > 1
        else "unknown"
    )
    return (
        f"{contexts} contexts a model: the scores' standard errors, and the noise ceiling made of "
        f"them, are {known}; `tokenmart recall --contexts {USABLE_CONTEXTS}` makes that ±25%"
    )


def make_contexts(target: RecallTarget, filler: Sequence[tuple[str, str]]) -> list[Context]:
    """Draw filler passages, names and numbers; equal seeds give equal contexts."""
    rng = np.random.default_rng([target.seed, RECALL_VERSION])
    blocks = target.lengths[-1] // target.key_every
    if blocks > len(ADJECTIVES) * len(NOUNS):
        raise TokenmartError(
            f"target.key_every {target.key_every}: {blocks} keys, at most "
            f"{len(ADJECTIVES) * len(NOUNS)} have a name; raise it"
        )
    # generous for any tokenizer: a token is rarely longer than eight characters
    needed = target.lengths[-1] * 8
    texts = [text for _, text in filler if len(text) >= needed * 2]
    if not texts:
        raise TokenmartError(
            f"target.filler: no file of {target.filler.include!r} has {needed * 2} characters; "
            "choose longer texts or shorter lengths"
        )
    order = rng.permutation(len(texts))
    contexts = []
    for number in range(target.contexts):
        text = texts[order[number % len(texts)]]
        start = int(rng.integers(0, len(text) - needed))
        start = text.find("\n", start) + 1
        pairs = rng.choice(len(ADJECTIVES) * len(NOUNS), size=blocks, replace=False)
        digits = rng.integers(0, 10, size=(blocks, target.value_digits))
        contexts.append(
            Context(
                filler=text[start : start + needed],
                names=tuple(
                    f"{ADJECTIVES[p // len(NOUNS)]} {NOUNS[p % len(NOUNS)]}" for p in pairs
                ),
                numbers=tuple("".join(map(str, row)) for row in digits),
                offsets=tuple(rng.uniform(0, 1, size=blocks)),
            )
        )
    return contexts


def build_items(
    target: RecallTarget, contexts: Sequence[Context], tokenizer: DocumentTokenizer
) -> list[Item]:
    """Requests of all questions in one model's tokens."""
    items: list[Item] = []
    for number, context in enumerate(contexts):
        trunk = _trunk(target, context, tokenizer)
        questions = [
            _question(name, value, tokenizer)
            for name, value in zip(context.names, context.numbers, strict=True)
        ]
        for length in target.lengths:
            for ids, first in questions[: length // target.key_every]:
                answers = np.zeros(len(ids) - first, dtype=np.int32)
                request = Request(
                    segment=number,
                    ids=ids,
                    first_target=first,
                    positions=answers,
                    context_tokens=answers,
                    trunk=trunk,
                    prefix_length=length,
                )
                items.append(Item(length, number, request))
    return items


def _trunk(target: RecallTarget, context: Context, tokenizer: DocumentTokenizer) -> Ids:
    filler = tokenizer.encode(context.filler).ids
    pieces: list[Ids] = []
    used = 0
    for index, offset in enumerate(context.offsets):
        fact = tokenizer.encode(
            f"\nOne of the special numbers: the number of the {context.names[index]} is "
            f"{context.numbers[index]}.\n"
        ).ids
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


def _question(name: str, value: str, tokenizer: DocumentTokenizer) -> tuple[Ids, int]:
    """Ids of a question with its answer, and where the answer's digits begin."""
    text = f"\nThe number of the {name} is {value}"
    encoded = tokenizer.encode(text)
    inside = encoded.char_end > len(text) - len(value)
    return encoded.ids, int(np.argmax(inside))


def score_items(scorer: Scorer, items: Sequence[Item], target: RecallTarget) -> pa.Table:
    """Run the questions; one row per question in the DOWNSTREAM schema."""
    rows: list[dict[str, Any]] = []
    for index, result in enumerate(scorer.score([item.request for item in items])):
        item = items[index]
        first = result.scores.rank == 1
        measures = {
            "exact_match": float(first.all()),
            "token_accuracy": float(first.mean()),
            "answer_nll": float(-result.scores.logprob.mean()),
        }
        rows.append(
            {
                "task": f"recall_{item.length}",
                "item": index,
                "cluster": item.context,
                "context_tokens": item.length,
                "score": measures[target.score],
                **measures,
            }
        )
    return pa.Table.from_pylist(rows, schema=DOWNSTREAM)


def target_fingerprint(target: RecallTarget, plan: ModelPlan, backend: str) -> str:
    """Everything the measured rows depend on."""
    return fingerprint(
        {
            "revision": plan.checkpoint.revision,
            "interventions": describe_interventions(plan.spec),
            **describe_corrections(plan.spec),
            "tokenizer": plan.tokenizer_sha256,
            "dtype": plan.dtype,
            "backend": backend,
            "engine": ENGINE_VERSION,
            "recall": RECALL_VERSION,
            "target": target.model_dump(mode="json"),
            "names": hashlib.sha256(" ".join(ADJECTIVES + NOUNS).encode()).hexdigest(),
        }
    )


def items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The measured items of one model."""
    return (
        workspace.downstream / f"problem={problem.name}" / f"model_id={model_id}" / "items.parquet"
    )


def is_measured(path: Path, wanted: str) -> bool:
    """Whether the file holds items with this fingerprint."""
    if not path.is_file():
        return False
    metadata = pq.read_schema(path).metadata or {}
    return bool(metadata.get(FINGERPRINT_KEY, b"").decode() == wanted)


def store_items(path: Path, items: pa.Table, wanted: str) -> None:
    """Write measured items atomically, with their fingerprint."""
    write_table(path, items.replace_schema_metadata({FINGERPRINT_KEY: wanted.encode()}))
