"""Result of scoring a request, the same for all backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
        choices: shape (n, k), vocabulary ids of the top-k tokens, best first; None where
            they were not asked for.
        choice_logprobs: shape (n, k), theirs.
    """

    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    rank: NDArray[np.int32]
    top_logprob: NDArray[np.float32]
    choices: NDArray[np.int32] | None = None
    choice_logprobs: NDArray[np.float32] | None = None

    def first(self, count: int) -> TokenScores:
        """Those of the first tokens."""
        first: dict[str, Any] = {
            name: None if each is None else each[:count] for name, each in vars(self).items()
        }
        return TokenScores(**first)


@dataclass(frozen=True)
class Scored:
    """Statistics of one request, and the tokens that went through the model for it."""

    scores: TokenScores
    tokens_processed: int


class NonFiniteLogits(Exception):
    """The model produced NaN or infinite logits."""
