"""Results of scoring: statistics of the tokens of one request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TokenScores:
    """Statistics of n scored tokens, each of shape (n,); nats, natural logarithm.

    Attributes:
        logprob: of the token, at most 0.
        entropy: of the full predictive distribution.
        rank: 1 = the model's top-1 token.
        top_logprob: of the top-1 token, at least `logprob`.
        varentropy: variance of −log p under the predictive distribution, nats².
        choices: shape (n, k), vocabulary ids of the top-k tokens, best first; None where
            they were not asked for.
        choice_logprobs: shape (n, k), theirs.
    """

    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    rank: NDArray[np.int32]
    top_logprob: NDArray[np.float32]
    varentropy: NDArray[np.float32]
    choices: NDArray[np.int32] | None = None
    choice_logprobs: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Divergence:
    """A model's predictions at n scored tokens compared with a reference's, each of shape (n,).

    Attributes:
        kl_reference_model: KL(reference ‖ model), in nats.
        kl_model_reference: KL(model ‖ reference), in nats.
        same_top: whether both have the same top-1 token.
    """

    kl_reference_model: NDArray[np.float32]
    kl_model_reference: NDArray[np.float32]
    same_top: NDArray[np.bool_]


@dataclass(frozen=True)
class Scored:
    """Statistics of one request, and the tokens that went through the model for it.

    `divergence` is None unless the model was compared with a reference.
    """

    scores: TokenScores
    tokens_processed: int
    divergence: Divergence | None = None


ENGINE_VERSION = "3"
"""Rises whenever the engine may give other rows for the same request than before."""

PROGRAM = "transformers"
"""The ledger's `backend` of what is scored here; imported log-probs name another."""
