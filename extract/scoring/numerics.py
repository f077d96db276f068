"""Settings that rounding of rows depends on besides weights, tokens and dtype; part of
fingerprints.
"""

from __future__ import annotations

from typing import Literal

ENGINE_VERSION = "3"
"""Rises whenever the engine may give other rows for the same request than before."""

LOCKED_ARCHITECTURES = ("llama", "mistral", "qwen2")
"""`model_type` of the locked list's models: shared prefixes and fused attention must work."""


def attention_class(asked: str | None) -> Literal["fused", "eager"]:
    """The class of attention results that may be compared row by row.

    Fused kernels (those of SDPA, FlashAttention 2 and 3) differ by the order of float32 sums.
    Eager attention also rounds the attention weights to the model's dtype, which moves log-probs
    as far as everything else in that dtype together; its rows are never mixed with the others'.

    Args:
        asked: the attention implementation of the command line; None leaves it to transformers,
            which takes SDPA wherever the architecture has it.
    """
    return "eager" if asked == "eager" else "fused"
