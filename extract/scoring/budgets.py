"""Batch sizes: rows and tiles of the head, tokens of a forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.problem.models import ModelShape

CPU_ROWS, CPU_TILE = 64, 49_152
GPU_ROWS, GPU_TILE = 2048, 65_536
"""Hidden states per block of the head, and logits per tile of the vocabulary."""

CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 65_536
"""Tokens per forward of batched requests: what suits a processor's caches, a GPU's most."""

SUFFIX_TOKENS = 1024
"""Tokens of suffixes (retrieval excerpts, recall questions) packed into one forward."""

ONE_TEXT_SHARE = 0.9
"""Of what is free, what one long text may take; the rest is the allocator's and the libraries'."""

SMALLEST = 32
"""No budget is halved below this."""


@dataclass(frozen=True)
class Budgets:
    """Batch sizes of one pass.

    Attributes:
        batch_tokens: per forward of batched requests, padding included.
        suffix_tokens: of suffixes packed into one forward.
        rows: hidden states per block of the head.
        prefix_tokens: a longer prefix goes into its KV cache in pieces; None for never.
        text_tokens: a longer text is split the same way, although its cache isn't used again.
    """

    batch_tokens: int
    suffix_tokens: int
    rows: int
    prefix_tokens: int | None = None
    text_tokens: int | None = None

    def one_forward(self, tokens: int, *, cached: bool) -> bool:
        """Whether a text of this many tokens fits in one forward pass."""
        most = self.prefix_tokens if cached else self.text_tokens
        return most is None or tokens <= most

    @property
    def piece_tokens(self) -> int:
        """Tokens of a piece of a text that is too long for one forward.

        Half of the budget: after a cache each token also adds its row of the mask, which at
        32,768 tokens takes about as much as its activations in a model of 7B (computed).
        """
        return max(SMALLEST, (self.prefix_tokens or 0) // 2)

    def halved(self, longest: int) -> Budgets | None:
        """All of them halved, for texts of at most `longest` tokens; None at the smallest."""
        prefix = min(self.prefix_tokens or longest, longest)
        text = min(self.text_tokens or longest, longest)
        parts = (self.batch_tokens, self.suffix_tokens, self.rows, prefix, text)
        if max(parts) <= SMALLEST:
            return None
        return Budgets(*(max(SMALLEST, part // 2) for part in parts))


def activation_bytes_per_token(shape: ModelShape, size: int) -> int:
    """Peak of one decoder layer per token: residual, its norm, and the wider of its halves.

    Args:
        shape: the model's.
        size: bytes of one number in the model's dtype.
    """
    attention = 3 * shape.query_width + 4 * shape.kv_width
    return size * (3 * shape.width + max(attention, 3 * shape.inner))


def cache_bytes_per_token(shape: ModelShape, size: int) -> int:
    """Keys and values of one token in all layers.

    Args:
        shape: the model's.
        size: bytes of one number in the model's dtype.
    """
    return 2 * shape.layers * shape.kv_width * size


def gpu_budgets(free: int, shape: ModelShape | None, size: int) -> Budgets:
    """Batch sizes for a GPU.

    A batch may take a quarter of the memory free after the weights, and a block of logits a tenth.
    One long text may take nearly all of it, so that what fits in one forward is tried in one
    forward: its activations, its hidden states, and its KV cache where that is kept. Should it be
    too much, the engine halves.

    Args:
        free: bytes free on the device, the model loaded.
        shape: the model's; None takes the largest budgets.
        size: bytes of one number in the model's dtype.
    """
    if shape is None:
        most = GPU_BATCH_TOKENS
        return Budgets(most, SUFFIX_TOKENS, GPU_ROWS, prefix_tokens=most, text_tokens=most)
    layer = activation_bytes_per_token(shape, size)
    row = 3 * 4 * min(GPU_TILE, shape.vocabulary)
    rows = _within(free // 10 // row, 32, GPU_ROWS)
    left = int(ONE_TEXT_SHARE * free) - rows * row
    cached = left // (layer + cache_bytes_per_token(shape, size))
    return Budgets(
        batch_tokens=_within(free // 4 // layer, 512, GPU_BATCH_TOKENS),
        suffix_tokens=SUFFIX_TOKENS,
        rows=rows,
        prefix_tokens=max(512, cached),
        text_tokens=max(512, left // layer),
    )


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))
