"""The plain way to score a request: one forward, all logits, log-softmax in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from extract.scored import TokenScores
from warehouse.probes.request import Request


def plain_scores(model: Any, request: Request) -> TokenScores:
    """Statistics of a request's targets from `model(ids).logits`."""
    ids = np.concatenate([request.trunk[: request.prefix_length], request.ids])
    with torch.inference_mode():
        logits = model(torch.from_numpy(ids[None]).long()).logits[0].float()
    count = len(request.targets)
    logprobs = logits[-count - 1 : -1].double().log_softmax(-1)
    own = logprobs.gather(1, torch.from_numpy(request.targets).long()[:, None])
    return TokenScores(
        own[:, 0].numpy(),
        -(logprobs.exp() * logprobs).sum(-1).numpy(),
        ((logprobs > own).sum(-1) + 1).int().numpy(),
        logprobs.amax(-1).numpy(),
    )


def assert_agree(ours: TokenScores, plain: TokenScores, nats: float = 1e-4) -> None:
    """Log-probs within `nats` at every position; ranks equal but for near-ties."""
    np.testing.assert_allclose(ours.logprob, plain.logprob, atol=nats, rtol=0)
    np.testing.assert_allclose(ours.top_logprob, plain.top_logprob, atol=nats, rtol=0)
    np.testing.assert_allclose(ours.entropy, plain.entropy, atol=5 * nats, rtol=0)
    # two float32 products order logits differently only when they are within rounding
    off = np.abs(ours.rank - plain.rank)
    assert (off <= np.maximum(1, plain.rank // 500)).all()
    assert (off[plain.rank <= 10] == 0).all()
