"""Does the engine give memory back, and get by with less of it."""

from __future__ import annotations

import time

from gpu_correctness import differences
from gpu_subjects import Subject, conditions_of, forwards, requests_of, score
from gpu_table import Bench, Row, give_back, measure, out_of_memory_named

LEFT_BEHIND = 256 * 2**20
"""Bytes that may stay allocated after a run: the matrix libraries' workspaces."""


def memory(bench: Bench, subject: Subject) -> None:
    """Take most of the memory away while windows are scored: the engine must get by with less.

    Only PyTorch's allocator of a GPU can be set to refuse; for a processor there is no such
    limit, and none is made up.
    """
    import torch

    from extract.scoring.engine import Engine

    count = bench.size.lengths[0]
    name = subject.spec.full_id
    conditions, tokens = conditions_of(bench, "window"), subject.tokens(count)
    work = forwards(subject, [r.length for r in requests_of(conditions, tokens)])
    if not bench.fits("memory", f"{name}: forced out-of-memory", 8 * work):
        return
    what = "windows at half the memory beside the weights"
    if not bench.on_gpu:
        note = "skipped: PyTorch can't limit a processor's memory"
        bench.add(Row("memory", name, bench.dtype, count, what, note=note))
        return
    told: list[str] = []
    engine = Engine(subject.load(bench.dtype), fused=bench.fused)
    expected = score(engine, conditions, tokens)
    _, peak = measure(lambda: score(engine, conditions, tokens), bench.device, 0)
    allocated = give_back(bench.device)
    limit = allocated + (peak - allocated) // 2
    total = torch.cuda.get_device_properties(bench.device).total_memory
    squeezed, bytes_then = None, None
    started = time.perf_counter()
    try:
        torch.cuda.set_per_process_memory_fraction(limit / total, bench.device)
        torch.cuda.reset_peak_memory_stats(bench.device)
        with out_of_memory_named(told):
            squeezed = score(engine, conditions, tokens)
        bytes_then = int(torch.cuda.max_memory_allocated(bench.device))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, bench.device)
    seconds = time.perf_counter() - started
    after = give_back(bench.device)
    again = score(engine, conditions, tokens)
    off = differences(squeezed or again, expected)
    ending = "went on" if squeezed else f"gave up: {told[0]}"
    note = f"limit {limit / 2**30:.2f} GiB, before {peak / 2**30:.2f}; {ending}"
    bench.add(
        Row("memory", name, bench.dtype, count, what, seconds=seconds, peak_bytes=bytes_then,
            largest_nats=off[0], mean_nats=off[1], note=note)
    )  # fmt: skip
    bench.must(after <= allocated + LEFT_BEHIND, f"{name}: memory stays taken after a refusal")
