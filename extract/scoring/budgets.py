"""Limits of the engine: batch sizes, refused requests, and what it does without memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from extract.devices import free_bytes, free_unused
from extract.failures import DoesNotFitError, NoKernelError, is_out_of_memory, raise_if_lost
from warehouse.errors import TokenmartError
from warehouse.probes.request import Request
from warehouse.problem.models import ModelShape

if TYPE_CHECKING:
    import torch

    from extract.scoring.attention import Kernels

Result = TypeVar("Result")

CPU_ROWS, CPU_TILE = 64, 49_152
GPU_ROWS, GPU_TILE = 2048, 65_536
"""Hidden states per block of the head, and logits per tile of the vocabulary."""

CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 32_768
"""Tokens per forward of batched requests: what suits a processor's caches, a GPU's most. Twice as
many were no faster on an H100 (by 1% at most), and took more memory than one long text."""

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

    `size` is that of one number in the model's dtype, in bytes.
    """
    attention = 3 * shape.query_width + 4 * shape.kv_width
    return size * (3 * shape.width + max(attention, 3 * shape.inner))


def cache_bytes_per_token(shape: ModelShape, size: int) -> int:
    """Keys and values of one token in all layers; `size` as above."""
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
        longest = 2 * GPU_BATCH_TOKENS
        return Budgets(GPU_BATCH_TOKENS, SUFFIX_TOKENS, GPU_ROWS, longest, longest)
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


def default_budgets(
    device: torch.device, shape: ModelShape | None, size: int, rows: int
) -> Budgets:
    """Batch sizes that suit a device, the model loaded; a processor reads whole texts.

    Args:
        device: where.
        shape, size: see `gpu_budgets`.
        rows: hidden states per block of the head on a processor.
    """
    if device.type != "cuda":
        return Budgets(CPU_BATCH_TOKENS, SUFFIX_TOKENS, rows)
    # what an earlier model left to the allocator is free, too
    free_unused()
    return gpu_budgets(free_bytes(device), shape, size)


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


class Attempts:
    """Batch sizes on a device, and the kernels used.

    Attributes:
        device: where.
        budgets: those of the next attempt; `run` puts back what they were.
        kernels: fused attention kernels, in the order of preference.
        refused: why cuDNN's kernel is not used though it was preferred; empty where it is.
    """

    def __init__(self, device: torch.device, budgets: Budgets, kernels: Kernels) -> None:
        self.device, self.budgets, self.kernels = device, budgets, kernels
        self.refused = ""

    def run(self, call: Callable[[], Result], longest: int) -> Result:
        """The result of a call that reads `budgets`, halving them while memory runs out.

        Args:
            call: recomputes everything.
            longest: tokens of its longest text.

        Raises:
            TokenmartError: out of memory at the smallest budgets, or no kernel supports the
                tensors.
            DeviceLostError: the GPU failed.
        """
        budgets, emptied = self.budgets, self.device.type != "cuda"
        try:
            while True:
                result, shortage = self._attempt(call)
                if result is not None:
                    return result[0]
                free_unused()
                if not shortage:
                    continue
                if not emptied:
                    # what was in the way may have been earlier texts' segments of other sizes
                    emptied = True
                    continue
                smaller = self.budgets.halved(longest)
                if smaller is None:
                    raise TokenmartError(
                        f"out of memory even at the smallest batch ({shortage}); use --dtype "
                        "bfloat16, a larger device, or fewer --max-tokens",
                        code="out-of-memory",
                    )
                self.budgets = smaller
        finally:
            self.budgets = budgets

    def _attempt(self, call: Callable[[], Result]) -> tuple[tuple[Result] | None, str]:
        """The result, or None and what was short; nothing of a failed call is kept.

        The traceback of an exception keeps every frame alive, and with it what did not fit: so it
        is gone when this returns.
        """
        import torch

        from extract.scoring import attention

        try:
            with torch.inference_mode(), attention.fused_kernels(self.device, self.kernels):
                return (call(),), ""
        except NoKernelError as error:
            if attention.without_cudnn(self.kernels) == self.kernels:
                raise
            self.refuse_cudnn(error.format_message())
            return None, ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise_if_lost(error)
                raise
            return None, str(error)[:80]

    def refuse_cudnn(self, reason: str) -> None:
        """Continue without cuDNN's attention; the ledger records the reason."""
        from extract.scoring.attention import without_cudnn

        self.kernels = without_cudnn(self.kernels)
        self.refused = f"cuDNN refused: {reason[:100]}"


def refuse_large_caches(requests: Iterable[Request], bytes_per_token: int, free: int) -> None:
    """Stop early if the keys and values of a shared prefix alone exceed the free memory.

    Raises:
        DoesNotFitError: they do; what shares no prefix may still fit.
    """
    tokens = max((len(r.prefix) + len(r.ids) for r in requests if r.prefix_length), default=0)
    if tokens * bytes_per_token > free:
        raise DoesNotFitError(
            f"the KV cache of {tokens:,} tokens needs {tokens * bytes_per_token / 2**30:.1f} GiB, "
            f"and {free / 2**30:.1f} GiB are free in addition to the weights; leave out probes "
            "that continue whole documents (choose with --probe), or use fewer --max-tokens, "
            "--device auto-map or a larger GPU"
        )


def refuse_unknown_ids(requests: Iterable[Request], rows: int) -> None:
    """Stop before the device does: on a GPU an id without embeddings ends the process.

    Raises:
        TokenmartError: a text has a token for which the model has no embeddings.
    """
    for request in requests:
        largest = max(int(ids.max(initial=0)) for ids in (request.ids, request.prefix))
        if largest >= rows:
            raise TokenmartError(
                f"a text has token {largest}, and the model has embeddings for {rows} tokens; "
                "remove this special token from the text, or take the tokenizer that was "
                "trained with these weights",
                code="tokens-beyond-embeddings",
                where=largest,
            )
