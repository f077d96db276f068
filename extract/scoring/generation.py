"""Text that a model writes: transformers' own `generate`, on the engine's model.

It is scored afterwards, like any other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from extract.models.placement import execution_device
from warehouse.probes.request import Ids

PROMPTS_AT_ONCE = 16

PROMPT_TOKENS = 8192
"""Tokens of prompts at once, more only where a GPU has memory for them: a step reads all weights,
whatever the number of prompts, and their KV cache takes up to 1 MB a token in models of 7B."""

LOOK_BACK_TOKENS = 4
"""Tokens decoded beyond those of a stop text, for texts that begin inside a token."""


@dataclass(frozen=True)
class Writing:
    """Settings of generation.

    Attributes:
        tokenizer: of transformers.
        most_tokens: how many at most.
        stops: texts that end the generation; they stay in the answer.
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
        stopped = [any(stop in text for stop in self.stops) for text in texts]
        return torch.tensor(stopped, dtype=torch.bool, device=input_ids.device)


@torch.inference_mode()
def generate(model: Any, contexts: Sequence[Ids], writing: Writing, batch_tokens: int) -> list[Ids]:
    """Generate text after each context (shape (n,)), greedily unless the options say otherwise.

    Contexts run together up to `batch_tokens` or `PROMPT_TOKENS`, padding included.

    Returns:
        Ids of each answer, shape (m,), up to the end of text, which is included, or to the last
        token computed.
    """
    device = execution_device(model.get_input_embeddings())
    ends = _end_tokens(model, writing.tokenizer)
    answers: dict[int, Ids] = {}
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
        written = model.generate(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=torch.from_numpy(mask).to(device),
            max_new_tokens=writing.most_tokens,
            stopping_criteria=StoppingCriteriaList([_Stops(writing, longest)]),
            pad_token_id=ends[0] if ends else 0,
            use_cache=True,
            **options,
        )[:, longest:]
        for row, i in enumerate(batch):
            answer = written[row].cpu().numpy().astype(np.int32)
            last = np.flatnonzero(np.isin(answer, ends))
            answers[i] = answer[: last[0] + 1] if len(last) else answer
    return [answers[i] for i in range(len(contexts))]


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = named if isinstance(named, list) else [named]
    return [int(end) for end in dict.fromkeys([*ends, tokenizer.eos_token_id]) if end is not None]
