"""The plain way to score a request: one forward, all logits; and how near it is to the truth.

The truth is the same model in float64. How far a right float32 computation may be from it is not
a number of ours: the plain float32 forward's own error says it, on whatever processor runs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from extract.scoring.engine import Engine
from extract.scoring.statistics import Scored, TokenScores
from warehouse.probes.request import Request

FACTOR = 4.0
"""Accepted multiple of the plain forward's error: sums in another order, in batches, in
pieces and behind a cache have errors of the same size, not the same errors."""


@dataclass(frozen=True)
class Reference:
    """Statistics of one request in float64, and what may be off, in nats.

    Attributes:
        exact: of the float64 forward.
        nats: accepted difference of log-probs.
        entropy_nats: accepted difference of entropies.
        varentropy_nats: accepted difference of varentropies.
        lowest_rank: shape (n,), if every logit within twice `nats` of the target's were below it.
        highest_rank: the same if it were above.
    """

    exact: TokenScores
    nats: float
    entropy_nats: float
    varentropy_nats: float
    lowest_rank: NDArray[np.int64]
    highest_rank: NDArray[np.int64]


def references(model: Any, requests: Sequence[Request]) -> list[Reference]:
    """What the engine must give for each request, from `model(ids).logits` of a float32 model."""
    exact = copy.deepcopy(model).double()
    return [_reference(model, exact, request) for request in requests]


def plain_logprobs(model: Any, request: Request) -> torch.Tensor:
    """Log-probs of all tokens at each target, shape (targets, vocabulary), in float64."""
    ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
    with torch.inference_mode():
        batch = torch.from_numpy(ids[None]).long().to(model.device)
        logits = model(batch, logits_to_keep=len(request.targets) + 1).logits[0]
    return logits[:-1].double().log_softmax(-1).cpu()


def target_logprobs(model: Any, request: Request) -> NDArray[np.float64]:
    """Log-probs of a request's targets by the model's own logits, shape (targets,)."""
    targets = torch.from_numpy(request.targets).long()[:, None]
    own: NDArray[np.float64] = plain_logprobs(model, request).gather(1, targets)[:, 0].numpy()
    return own


def _reference(model: Any, exact_model: Any, request: Request) -> Reference:
    plain, exact = plain_logprobs(model, request), plain_logprobs(exact_model, request)
    own = exact.gather(1, torch.from_numpy(request.targets).long()[:, None])
    entropy = _entropy(exact)
    rounding = np.finfo(np.float32).eps * float(exact.abs().max())
    nats = FACTOR * (float((plain - exact).abs().max()) + rounding)
    off = float((_entropy(plain) - entropy).abs().max())
    return Reference(
        exact=TokenScores(
            own[:, 0].numpy(),
            entropy.numpy(),
            ((exact > own).sum(-1) + 1).int().numpy(),
            exact.amax(-1).numpy(),
            varentropy=_varentropy(exact).numpy(),
        ),
        nats=nats,
        entropy_nats=max(nats, FACTOR * off),
        # the largest error that `nats` in every log-prob makes in the mean of their squares
        varentropy_nats=2 * nats * float(exact.abs().max()),
        lowest_rank=((exact > own + 2 * nats).sum(-1) + 1).numpy(),
        highest_rank=((exact > own - 2 * nats).sum(-1)).clamp(min=1).numpy(),
    )


def _entropy(logprobs: torch.Tensor) -> torch.Tensor:
    return -(logprobs.exp() * logprobs).sum(-1)


def _varentropy(logprobs: torch.Tensor) -> torch.Tensor:
    centred = logprobs + _entropy(logprobs).unsqueeze(-1)
    return (logprobs.exp() * centred.square()).sum(-1)


def assert_agree(ours: TokenScores, reference: Reference) -> None:
    """Every statistic at every position within the reference's own rounding."""
    exact, nats = reference.exact, reference.nats
    np.testing.assert_allclose(ours.logprob, exact.logprob, atol=nats, rtol=0)
    np.testing.assert_allclose(ours.top_logprob, exact.top_logprob, atol=nats, rtol=0)
    np.testing.assert_allclose(ours.entropy, exact.entropy, atol=reference.entropy_nats, rtol=0)
    spread = reference.varentropy_nats
    np.testing.assert_allclose(ours.varentropy, exact.varentropy, atol=spread, rtol=0)
    assert (ours.rank >= reference.lowest_rank).all()
    assert (ours.rank <= reference.highest_rank).all()


def assert_scored(
    engine: Engine, requests: Sequence[Request], expected: Sequence[Reference]
) -> list[Scored]:
    """The engine's results, all of them within the rounding of their references."""
    results = engine.score(requests)
    for result, reference in zip(results, expected, strict=True):
        assert_agree(result.scores, reference)
    return results
