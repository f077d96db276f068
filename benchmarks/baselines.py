"""The ways to score tokens without Tokenmart, written plainly: what the engine is compared with.

All run the model as it is given to them, so dtype and attention are those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

HEAD_ROWS = 1024
"""Hidden states per product with the head where people do it in chunks."""


class ForeignError(Exception):
    """Another project failed, and how."""


def _batch(model: Any, tokens: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(tokens)[None]).long().to(model.device)


def losses_of(model: Any, tokens: Any) -> Any:
    """Losses of every token but the first, shape (n - 1,), from all logits in float32, in one
    piece.
    """
    import torch

    ids = _batch(model, tokens)
    logits = model(input_ids=ids, use_cache=False).logits[0].float()
    return torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")


def all_logits(model: Any, tokens: Any) -> Callable[[], Any]:
    """One forward over the text, all logits, cross-entropy in float32."""
    import torch

    def run() -> Any:
        with torch.inference_mode():
            return losses_of(model, tokens).cpu()

    return run


def chunked_head(model: Any, tokens: Any) -> Callable[[], Any]:
    """One forward of the backbone, then head and cross-entropy over `HEAD_ROWS` rows at a time."""
    import torch

    ids = _batch(model, tokens)
    head = model.get_output_embeddings()

    def run() -> Any:
        with torch.inference_mode():
            hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0, :-1]
            return torch.cat(
                [
                    torch.nn.functional.cross_entropy(
                        head(hidden[at : at + HEAD_ROWS]).float(),
                        ids[0, at + 1 : at + 1 + HEAD_ROWS],
                        reduction="none",
                    )
                    for at in range(0, len(hidden), HEAD_ROWS)
                ]
            ).cpu()

    return run


def last_logits(model: Any, texts: Sequence[tuple[Any, int]]) -> Callable[[], Any]:
    """One forward for each (tokens, count), logits of its last `count` targets alone."""
    import torch

    def run() -> list[Any]:
        losses = []
        with torch.inference_mode():
            for tokens, count in texts:
                ids = _batch(model, tokens)
                output = model(input_ids=ids, use_cache=False, logits_to_keep=count + 1)
                logits = output.logits[0, :-1].float()
                loss = torch.nn.functional.cross_entropy(logits, ids[0, -count:], reduction="none")
                losses.append(loss.cpu())
        return losses

    return run


def longppl_procedure(
    model: Any, tokens: Any, context: int, stride: int
) -> Callable[[], tuple[Any, list[Any]]]:
    """The published procedure (arXiv 2410.23771): full logits, windows one by one, float32 losses.

    For start = 0, stride, 2·stride … below n − context it runs [start, start + context + stride)
    and takes the losses of what comes after the first `context` tokens.
    """
    import torch

    def run() -> tuple[Any, list[Any]]:
        with torch.inference_mode():
            full, short = losses_of(model, tokens).cpu(), []
            for start in range(0, len(tokens) - context, stride):
                window = tokens[start : start + context + stride]
                short.append(losses_of(model, window)[context - 1 :].cpu())
        return full, short

    return run


def _harness(model: Any, tokenizer: Any, longest: int) -> Any:
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=longest)


def harness_loglikelihood(model: Any, tokenizer: Any, tokens: Any) -> Callable[[], Any]:
    """lm-evaluation-harness: loglikelihood of all tokens after the first, given as tokens.

    The call raises ForeignError when the installed version can't be called so.
    """
    first, *rest = (int(token) for token in tokens)
    made: list[Any] = []

    def run() -> Any:
        try:
            if not made:
                made.append(_harness(model, tokenizer, len(tokens)))
            return made[0]._loglikelihood_tokens([(("", ""), [first], rest)], disable_tqdm=True)
        except (ImportError, TypeError, AttributeError, AssertionError) as error:
            raise ForeignError(f"it can't be called so ({error})") from error

    return run
