"""Answers that a model writes, with the statistics of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from extract.scoring.generation import Writing, generate
from extract.scoring.head import to_host
from extract.scoring.self_check import Reference, within_rounding
from extract.token_scores import NonFiniteLogits, TokenScores
from warehouse.probes.request import Ids, Request


@dataclass(frozen=True)
class Answer:
    """What a model wrote.

    Attributes:
        ids: shape (n,).
        scores: of each token; None where they are to be scored like those of any other text.
    """

    ids: NDArray[np.int32]
    scores: TokenScores | None


def write_answers(
    engine: Any, contexts: Sequence[Ids], writing: Writing, reference: Reference
) -> list[Answer]:
    """Write behind each context, and score what was written from the states it was written from.

    Args:
        engine: of `extract.scoring.engine`; the first time, an answer with padding before its
            prompt is compared with its plain score, and the result kept in `scores_answers`.
        contexts: each of shape (n,), read whole.
        writing: how.
        reference: what redrawn roundings change in the model.

    Raises:
        NonFiniteLogits: the model produced NaN or infinite logits.
    """
    written = generate(engine.model, contexts, writing, engine.budgets.batch_tokens)
    if engine.scores_answers is False or any(each.states is None for each in written):
        return [Answer(each.ids, None) for each in written]
    scores = to_host(
        [
            engine.head.score(
                each.states,
                torch.from_numpy(each.ids).long().to(engine.head.device),
                engine.budgets.rows,
            )
            for each in written
        ]
    )
    if not all(np.isfinite(each.logprob).all() for each in scores):
        raise NonFiniteLogits("the model produced NaN or infinite logits")
    answers = [Answer(each.ids, own) for each, own in zip(written, scores, strict=True)]
    if engine.scores_answers is None:
        shortest = min(range(len(contexts)), key=lambda i: len(contexts[i]))
        plain = _plain(engine, contexts[shortest], answers[shortest].ids)
        engine.scores_answers = within_rounding(scores[shortest], plain, reference)
    if engine.scores_answers:
        return answers
    return [Answer(each.ids, None) for each in answers]


def _plain(engine: Any, context: Ids, ids: Ids) -> TokenScores:
    nowhere = np.zeros(len(ids), dtype=np.int32)
    request = Request(0, np.concatenate([context, ids]), len(context), nowhere, nowhere)
    (scored,) = engine.score([request])
    return scored.scores  # type: ignore[no-any-return]
