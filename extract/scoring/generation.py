"""Text that a model writes: transformers' own `generate`, on the engine's model.

Its log-probs are not taken from there: the states that it wrote from go through the engine's head.
The first answer of a model is scored like any other text, too; where the two differ by more than
rounding, so are all its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from extract.backends.backend import TokenScores
from extract.failures import NonFiniteLogits
from extract.models.loading import execution_device
from extract.scoring.head import to_host
from extract.scoring.self_check import Reference, within_rounding
from warehouse.probes.request import Ids, Request

PROMPTS_AT_ONCE = 16

PROMPT_TOKENS = 8192
"""Tokens of prompts at once, more only where a GPU has room: a step reads all weights, whatever the
number of prompts, and their KV cache takes up to 1 MB a token in models of 7B."""

LOOK_BACK_TOKENS = 4
"""Tokens decoded beyond those of a stop text, for texts that begin inside a token."""


@dataclass(frozen=True)
class Writing:
    """Settings of generation.

    Attributes:
        tokenizer: of transformers.
        most_tokens: how many at most.
        stops: texts that end the writing, themselves left out of nothing here.
        options: further ones of `generate`, such as `do_sample` and `temperature`.
        seed: of what is drawn, where `do_sample` asks for it.
    """

    tokenizer: Any
    most_tokens: int
    stops: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


class _Stops(StoppingCriteria):  # type: ignore[misc]  # transformers has no types
    """Each row ends once its generated text contains one of the texts."""

    def __init__(self, writing: Writing, behind: int) -> None:
        self.tokenizer, self.stops, self.behind = writing.tokenizer, writing.stops, behind
        lengths = [
            len(self.tokenizer(stop, add_special_tokens=False).input_ids) for stop in self.stops
        ]
        self.look_back = max(lengths, default=0) + LOOK_BACK_TOKENS

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        written = input_ids[:, self.behind :][:, -self.look_back :]
        texts = self.tokenizer.batch_decode(written)
        found = [any(stop in text for stop in self.stops) for text in texts]
        return torch.tensor(found, dtype=torch.bool, device=input_ids.device)


@torch.inference_mode()
def generate(
    model: Any, contexts: Sequence[Ids], writing: Writing, batch_tokens: int
) -> list[tuple[Ids, Tensor | None]]:
    """Generate text after each context (shape (n,)), greedily unless the options say otherwise.

    Contexts run together up to `batch_tokens` or `PROMPT_TOKENS`, padding included.

    Returns:
        Ids of each answer, shape (m,), up to the end of text, which is included, or to the last
        token computed; and the hidden states that predicted them, shape (m, width), None where
        there is not one for each, as with beams.
    """
    device = execution_device(model.get_input_embeddings())
    ends = _end_tokens(model, writing.tokenizer)
    found: dict[int, tuple[Ids, Tensor | None]] = {}
    order = sorted(range(len(contexts)), key=lambda i: (-len(contexts[i]), i))
    torch.manual_seed(writing.seed)
    options = {"do_sample": False, **writing.options}
    if not options["do_sample"]:
        options |= dict.fromkeys(("temperature", "top_p", "top_k"))
    most = max(batch_tokens, PROMPT_TOKENS)
    while order:
        longest = len(contexts[order[0]])
        size = max(1, min(PROMPTS_AT_ONCE, most // longest))
        batch, order = order[:size], order[size:]
        # padding is on the left, where the attention mask hides it
        ids = np.zeros((len(batch), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, i in enumerate(batch):
            ids[row, longest - len(contexts[i]) :] = contexts[i]
            mask[row, longest - len(contexts[i]) :] = 1
        with _last_states(model) as states:
            written = model.generate(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                max_new_tokens=writing.most_tokens,
                stopping_criteria=StoppingCriteriaList([_Stops(writing, longest)]),
                pad_token_id=ends[0] if ends else 0,
                use_cache=True,
                **options,
            )[:, longest:]
        every = len(states) == written.shape[1] and all(len(s) == len(batch) for s in states)
        for row, i in enumerate(batch):
            row_ids = written[row].cpu().numpy().astype(np.int32)
            last = np.flatnonzero(np.isin(row_ids, ends))
            row_ids = row_ids[: last[0] + 1] if len(last) else row_ids
            own = torch.stack([s[row] for s in states[: len(row_ids)]]) if every else None
            found[i] = row_ids, own
    return [found[i] for i in range(len(contexts))]


@contextmanager
def _last_states(model: Any) -> Iterator[list[Tensor]]:
    """The states of the last position before the head, shape (batch, width), forward by forward."""
    seen: list[Tensor] = []

    def keep(module: Any, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0][:, -1])

    hook = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        hook.remove()


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = named if isinstance(named, list) else [named]
    return [int(end) for end in dict.fromkeys([*ends, tokenizer.eos_token_id]) if end is not None]


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
    unscored = [Answer(ids, None) for ids, _ in written]
    if engine.scores_answers is False or any(states is None for _, states in written):
        return unscored
    head = engine.head
    scores = to_host(
        [
            head.score(states, torch.from_numpy(ids).long().to(head.device), engine.budgets.rows)
            for ids, states in written
        ]
    )
    if not all(np.isfinite(each.logprob).all() for each in scores):
        raise NonFiniteLogits
    if engine.scores_answers is None:
        shortest = min(range(len(contexts)), key=lambda i: len(contexts[i]))
        context, ids = contexts[shortest], written[shortest][0]
        nowhere = np.zeros(len(ids), dtype=np.int32)
        request = Request(0, np.concatenate([context, ids]), len(context), nowhere, nowhere)
        (plain,) = engine.score([request])
        engine.scores_answers = within_rounding(scores[shortest], plain.scores, reference)
    if not engine.scores_answers:
        return unscored
    return [Answer(ids, own) for (ids, _), own in zip(written, scores, strict=True)]
