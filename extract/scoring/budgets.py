"""How much is computed at once: rows and tiles of the head, tokens of a forward."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.problem.model_shape import ModelShape

CPU_ROWS, CPU_TILE = 64, 49_152
GPU_ROWS, GPU_TILE = 2048, 65_536
"""Hidden states per block of the head, and logits per tile of the vocabulary."""

CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 65_536
"""Tokens per forward of batched requests: what suits a processor's caches, a GPU's most."""

SUFFIX_TOKENS = 1024
"""Tokens of suffixes (retrieval excerpts, recall questions) packed into one forward."""

SMALLEST = 32
"""No budget is halved below this."""


@dataclass(frozen=True)
class Budgets:
    """How much is computed at once.

    Attributes:
        batch_tokens: per forward of batched requests, padding included.
        suffix_tokens: of suffixes packed into one forward.
        rows: hidden states per block of the head.
        prefix_tokens: a longer text goes through its KV cache in pieces; None for never.
    """

    batch_tokens: int
    suffix_tokens: int
    rows: int
    prefix_tokens: int | None = None

    @property
    def piece_tokens(self) -> int:
        """Tokens of a piece of a text that is too long for one forward.

        Half of the budget: behind a cache each token also brings its row of the mask, which at
        32,768 tokens takes about as much as its activations in a model of 7B (reckoned).
        """
        return max(SMALLEST, (self.prefix_tokens or 0) // 2)

    def halved(self, longest: int) -> Budgets | None:
        """All of them halved, for texts of at most `longest` tokens; None at the smallest."""
        longest = min(self.prefix_tokens or longest, longest)
        if max(self.batch_tokens, self.suffix_tokens, self.rows, longest) <= SMALLEST:
            return None
        halves = (each // 2 for each in (self.batch_tokens, self.suffix_tokens, self.rows, longest))
        return Budgets(*(max(SMALLEST, half) for half in halves))


def activation_bytes_per_token(shape: ModelShape, size: int) -> int:
    """Peak of one decoder layer per token: residual, its norm, and the wider of its halves.

    Args:
        shape: the model's.
        size: bytes of one number in the model's dtype.
    """
    attention = 3 * shape.query_width + 4 * shape.kv_width
    return size * (3 * shape.width + max(attention, 3 * shape.inner))


def gpu_budgets(free: int, shape: ModelShape | None, size: int) -> tuple[int, int]:
    """Tokens per forward of batched requests and rows per block of the head, for a GPU.

    A batch may take a quarter of what is free beside the weights and a block of logits a tenth;
    the rest is the KV cache's and the allocator's (reckoned, not measured). Should it be too
    much, the engine halves.

    Args:
        free: bytes free on the device, the model loaded.
        shape: the model's; None takes the largest budgets.
        size: bytes of one number in the model's dtype.
    """
    if shape is None:
        return GPU_BATCH_TOKENS, GPU_ROWS
    batch = free // 4 // activation_bytes_per_token(shape, size)
    rows = free // 10 // (3 * 4 * min(GPU_TILE, shape.vocabulary))
    return _within(batch, 512, GPU_BATCH_TOKENS), _within(rows, 32, GPU_ROWS)


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))
