"""Sums over a tile of logits in one reading of it, as Triton kernels for GPUs.

PyTorch takes some fifteen passes over it for the same: maximum, comparison, softmax, products.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
"""Logits that a program reduces at a time."""

PAIR_BLOCK = 1024
"""The same of two models' logits, in float64."""

WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def _row_sums(
    logits: tl.tensor,
    target_logits: tl.tensor,
    sums: tl.tensor,
    rows: int,
    width: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    first = logits + row * width
    target = tl.load(target_logits + row)
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
        inside = at + columns < width
        logit = tl.load(first + at + columns, mask=inside, other=0.0)
        # centred on the top, so that the mean logit keeps its digits
        below = tl.where(inside, logit - top, 0.0)
        weight = tl.where(inside, tl.exp(below), 0.0)
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


def tile_sums(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Statistics of each row of a tile, whose logits stay as they are.

    Args:
        logits: shape (rows, tile), float32, contiguous.
        target_logits: shape (rows,), float32.

    Returns:
        Shape (5, rows), float32: the highest logit, the number of logits above the target's, and of
        the tile's own softmax log-sum-exp, mean and variance of the logits.
    """
    rows, width = logits.shape
    sums = logits.new_empty(5, rows)
    # the kernel runs on the current GPU
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        _row_sums[(rows,)](
            logits, target_logits, sums, rows, width=width, BLOCK=BLOCK, num_warps=WARPS
        )
    return sums


@triton.jit  # type: ignore[untyped-decorator]
def _pair_sums(
    reference: tl.tensor,
    model: tl.tensor,
    sums: tl.tensor,
    rows: int,
    reference_step: tl.constexpr,
    model_step: tl.constexpr,
    width: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    first, second = reference + row * reference_step, model + row * model_step
    columns = tl.arange(0, BLOCK)
    highest_p = tl.full([BLOCK], float("-inf"), tl.float32)
    highest_q = tl.full([BLOCK], float("-inf"), tl.float32)
    best_p = tl.zeros([BLOCK], tl.int32)
    best_q = tl.zeros([BLOCK], tl.int32)
    for at in range(0, width, BLOCK):
        here = at + columns
        p = tl.load(first + here, mask=here < width, other=float("-inf"))
        q = tl.load(second + here, mask=here < width, other=float("-inf"))
        best_p = tl.where(p > highest_p, here, best_p)
        best_q = tl.where(q > highest_q, here, best_q)
        highest_p = tl.maximum(highest_p, p)
        highest_q = tl.maximum(highest_q, q)
    top_p, top_q = tl.max(highest_p, 0), tl.max(highest_q, 0)
    first_p = tl.min(tl.where(highest_p == top_p, best_p, width), 0)
    first_q = tl.min(tl.where(highest_q == top_q, best_q, width), 0)
    total_p = tl.zeros([BLOCK], tl.float64)
    total_q = tl.zeros([BLOCK], tl.float64)
    mean_p = tl.zeros([BLOCK], tl.float64)
    mean_q = tl.zeros([BLOCK], tl.float64)
    for at in range(0, width, BLOCK):
        inside = at + columns < width
        p = tl.load(first + at + columns, mask=inside, other=0.0).to(tl.float64)
        q = tl.load(second + at + columns, mask=inside, other=0.0).to(tl.float64)
        weight_p = tl.where(inside, tl.exp(p - top_p), 0.0)
        weight_q = tl.where(inside, tl.exp(q - top_q), 0.0)
        total_p += weight_p
        total_q += weight_q
        mean_p += weight_p * (p - q)
        mean_q += weight_q * (p - q)
    sum_p, sum_q = tl.sum(total_p, 0), tl.sum(total_q, 0)
    tl.store(sums + row, top_p + tl.log(sum_p))
    tl.store(sums + rows + row, tl.sum(mean_p, 0) / sum_p)
    tl.store(sums + 2 * rows + row, top_p.to(tl.float64))
    tl.store(sums + 3 * rows + row, first_p.to(tl.float64))
    tl.store(sums + 4 * rows + row, top_q + tl.log(sum_q))
    tl.store(sums + 5 * rows + row, tl.sum(mean_q, 0) / sum_q)
    tl.store(sums + 6 * rows + row, top_q.to(tl.float64))
    tl.store(sums + 7 * rows + row, first_q.to(tl.float64))


def pair_sums(reference: Tensor, model: Tensor) -> Tensor:
    """Statistics of two models' logits in a tile, for their divergence.

    Args:
        reference, model: float32, contiguous, shape (rows, their tile): the columns that both have
            are compared.

    Returns:
        Shape (2, 4, rows), float64, the reference's first: log-sum-exp, mean difference of the
        logits (the reference's minus the other's) under its softmax, the highest logit, its column.
    """
    rows, width = len(model), min(reference.shape[1], model.shape[1])
    sums = torch.empty(2, 4, rows, device=model.device, dtype=torch.float64)
    with torch.cuda.device_of(model):  # type: ignore[no-untyped-call]
        _pair_sums[(rows,)](
            reference, model, sums, rows, reference.stride(0), model.stride(0), width,
            BLOCK=PAIR_BLOCK, num_warps=WARPS,
        )  # fmt: skip
    return sums
