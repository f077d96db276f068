"""What the comparison with a reference model adds to a cost."""

from __future__ import annotations

from dataclasses import replace

from extract.planning.cost import BYTES, Cost, ModelSize, Work, estimate

BYTES_PER_DIVERGENCE = 9
"""Measured: 8.2 to 8.3, in files of 1,023 rows."""


def with_reference(
    cost: Cost, work: Work, size: ModelSize | None, *, dtype: str, device: str, forward: bool
) -> Cost:
    """Cost of a model with what a comparison with a reference adds.

    The reference's head goes over every compared token. Its forward pass, whose hidden states of
    the compared tokens wait in the scratch file, is that of the first model that needs it.

    Args:
        cost: of the model alone.
        work: of the conditions that are compared.
        size: the reference's; None leaves the sum of seconds unknown.
        dtype: the reference's.
        device: that of both.
        forward: whether the reference's forward pass is counted.
    """
    tokens = cost.tokens + work.tokens * forward
    disk = cost.disk_bytes + work.rows * BYTES_PER_DIVERGENCE
    if size is None:
        return replace(cost, tokens=tokens, disk_bytes=disk, seconds=None)
    read = work if forward else Work(0, work.rows, 0.0)
    added = estimate(read, size, dtype=dtype, device=device)
    scratch = work.rows * size.shape.width * BYTES[dtype] * forward
    seconds = None
    if cost.seconds is not None and added.seconds is not None:
        seconds = cost.seconds + added.seconds
    flops = cost.flops + added.flops
    return Cost(tokens, cost.rows, flops, seconds, disk, cost.scratch_bytes + scratch)
