"""What the engine is compared with before it scores: the model's own logits on a fixed text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from extract.scored import TokenScores
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.35, torch.float16: 0.05}
"""Largest difference in log-prob (nats) to the model's own logits accepted at load; the
model's half-precision logits are themselves rounded."""

TEXT_TOKENS, TRUNK_TOKENS = 96, 64


def fixed_text(vocabulary: int) -> Ids:
    """A short sequence of random ids, shape (96,), the same for every model."""
    return (
        np.random.default_rng(0)
        .integers(0, min(TEXT_TOKENS, vocabulary), TEXT_TOKENS)
        .astype(np.int32)
    )


def plain_statistics(logits: Tensor, targets: Tensor) -> TokenScores:
    """Statistics of n targets from logits of shape (n, vocabulary), all at once."""
    logprobs = logits.log_softmax(-1)
    own = logprobs.gather(1, targets[:, None])

    def collect(tensor: Tensor) -> NDArray[Any]:
        return tensor.cpu().numpy()

    return TokenScores(
        logprob=collect(own[:, 0]),
        entropy=collect(-(logprobs.exp() * logprobs).sum(-1)),
        rank=collect((logprobs > own).sum(-1).int() + 1),
        top_logprob=collect(logprobs.amax(-1)),
    )


def whole(ids: Ids) -> Request:
    """Every token of the text after everything before it."""
    return _request(ids, first_target=1, count=len(ids) - 1)


def branch(ids: Ids, start: int) -> Request:
    """The rest of the text, behind the first `start` tokens of a trunk."""
    rest = ids[start:]
    return _request(
        rest, first_target=0, count=len(rest), trunk=ids[:TRUNK_TOKENS], prefix_length=start
    )


def _request(ids: Ids, *, first_target: int, count: int, **prefix: Any) -> Request:
    nowhere = np.zeros(count, dtype=np.int32)
    return Request(0, ids, first_target, nowhere, nowhere, **prefix)


def compare(model: Any, path: str, ours: TokenScores, own: TokenScores) -> None:
    """Compare log-probs with the last of the model's own.

    Raises:
        TokenmartError: they differ by more than rounding.
    """
    tolerance = TOLERANCE[model.dtype]
    wanted = own.logprob[-len(ours.logprob) :]
    difference = float(np.max(np.abs(ours.logprob - wanted)))
    if not difference <= tolerance:
        raise TokenmartError(
            f"{type(model).__name__}: {path} scoring differs from the model's own logits by "
            f"{difference:.3g} nats (at most {tolerance:g} is accepted): its forward does "
            "something after the backbone that Tokenmart does not know; please report it"
        )


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Turn a failure of `torch.compile` into one line.

    Raises:
        TokenmartError: the compiler failed.
    """
    try:
        yield
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:150]
        raise TokenmartError(
            f"--compile: the compiler failed ({reason}); leave --compile out, or install a "
            "C++ compiler (processor) or triton (GPU)"
        ) from error
