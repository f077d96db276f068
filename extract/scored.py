"""What scoring a request gives, whichever backend does it."""

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
        rank: 1 = the model's first choice.
        top_logprob: of the first choice, at least `logprob`.
    """

    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    rank: NDArray[np.int32]
    top_logprob: NDArray[np.float32]


@dataclass(frozen=True)
class Scored:
    """Statistics of one request, and the tokens that went through the model for it."""

    scores: TokenScores
    tokens_processed: int


class NonFiniteLogits(Exception):
    """The model produced NaN or infinite logits."""
