"""Sums over a tile of logits in one reading of it, as a Triton kernel for GPUs.

PyTorch takes some fifteen passes over it for the same: maximum, comparison, softmax, products.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
"""Logits that a program reduces at a time."""

WARPS = 8


@triton.jit
def _row_sums(
    logits: tl.tensor,
    own: tl.tensor,
    sums: tl.tensor,
    rows: int,
    width: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    first = logits + row * width
    target = tl.load(own + row)
    columns = tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    above = tl.zeros([BLOCK], tl.float32)
    for at in range(0, width, BLOCK):
        logit = tl.load(first + at + columns, mask=at + columns < width, other=float("-inf"))
        highest = tl.maximum(highest, logit)
        above += (logit > target).to(tl.float32)
    top = tl.max(highest, 0)
    total = tl.zeros([BLOCK], tl.float32)
    centred = tl.zeros([BLOCK], tl.float32)
    squared = tl.zeros([BLOCK], tl.float32)
    # the row is in the GPU's cache by now
    for at in range(0, width, BLOCK):
        there = at + columns < width
        logit = tl.load(first + at + columns, mask=there, other=0.0)
        # centred on the top, so that the mean logit keeps its digits
        below = tl.where(there, logit - top, 0.0)
        weight = tl.where(there, tl.exp(below), 0.0)
        total += weight
        centred += weight * below
        squared += weight * below * below
    weights = tl.sum(total, 0)
    mean = tl.sum(centred, 0) / weights
    tl.store(sums + row, top)
    tl.store(sums + rows + row, tl.sum(above, 0))
    tl.store(sums + 2 * rows + row, top + tl.log(weights))
    tl.store(sums + 3 * rows + row, top + mean)
    tl.store(sums + 4 * rows + row, tl.sum(squared, 0) / weights - mean * mean)


def tile_sums(logits: Tensor, own: Tensor) -> Tensor:
    """Statistics of each row of a tile, whose logits stay as they are.

    Args:
        logits: shape (rows, tile), float32, contiguous.
        own: shape (rows,), float32; the targets' logits.

    Returns:
        Shape (5, rows), float32: the highest logit, the number of logits above the target's, and of
        the tile's own softmax log-sum-exp, mean and variance of the logits.
    """
    rows, width = logits.shape
    sums = logits.new_empty(5, rows)
    # the kernel runs on the current GPU
    with torch.cuda.device_of(logits):
        _row_sums[(rows,)](logits, own, sums, rows, width=width, BLOCK=BLOCK, num_warps=WARPS)
    return sums
