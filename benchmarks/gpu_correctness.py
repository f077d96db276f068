"""Is the engine right: each probe against the plain float32 forward."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gpu_subjects import Subject, requests_of, score
from gpu_table import Bench, Part, Row

from extract.scoring.engine import Engine
from warehouse.errors import TokenmartError

FLOAT32_SHARE = 1 / 50
"""Ours in float32 must be this much nearer to the reference than plain half precision is: TF32
has 8 times bfloat16's resolution and would fail, float32 has 65,536 times."""

FLOAT32_NATS = 2e-4
"""A small model's log-probs in float32 are as near as this to its plain forward's."""

PLAIN, CHANGED = "plain", "plain, part of the context changed"
OWN_LAYERS = "ours, own layers"
"""Of a row without fused layers, where both are measured."""

LEFT_BEHIND = 256 * 2**20
"""Bytes that may stay allocated after a run: the matrix libraries' workspaces."""


def differences(ours: Sequence[Any], reference: Sequence[Any]) -> tuple[float, float]:
    """The largest and the mean difference in nats."""
    off = np.abs(np.concatenate(ours) - np.concatenate(reference))
    return float(off.max()), float(off.mean())


def correctness(bench: Bench, subject: Subject, probe: str) -> None:
    """Ours and plain half precision against the plain float32 forward."""
    _compare(bench, subject, probe, {"ours": bench.fused})


def families_correctness(bench: Bench, subject: Subject, probe: str) -> None:
    """The same for a small model, with fused layers and without."""
    _compare(bench, subject, probe, {"ours": True, OWN_LAYERS: False}, "families", FLOAT32_NATS)


def _compare(
    bench: Bench,
    subject: Subject,
    probe: str,
    layers: dict[str, bool],
    part: Part = "correctness",
    nats: float = math.inf,
) -> None:
    count = bench.lengths[0]
    tokens, conditions = subject.tokens(count), bench.conditions(probe)
    requests = requests_of(conditions, tokens)
    half = "bfloat16" if bench.dtype == "float32" else bench.dtype
    logprobs_of: dict[tuple[str, str], list[Any]] = {}
    kernels: dict[str, str] = {}
    for dtype in ("float32", half):
        model = subject.load(dtype)
        logprobs_of[dtype, PLAIN] = plain(model, requests)
        if dtype == "float32":
            logprobs_of[dtype, CHANGED] = plain(model, _disturbed(requests))
        model = None
        for who, fused in layers.items():
            bench.give_back()
            # an engine may change the model it is given
            engine = Engine(subject.load(dtype), fused=fused)
            kernels.setdefault(who, engine.attention)
            logprobs_of[dtype, who] = score(engine, conditions, tokens)
            del engine
        bench.give_back()
    reference = logprobs_of.pop(("float32", PLAIN))
    off = {key: differences(logprobs, reference) for key, logprobs in logprobs_of.items()}
    for (dtype, who), (largest, mean) in off.items():
        bench.add(
            Row(part, subject.spec.full_id, dtype, count, f"{probe}, {who}",
                largest_nats=largest, mean_nats=mean, note=kernels.get(who, ""))
        )  # fmt: skip
    limit = off[half, PLAIN]
    for who in layers:
        exact, rounded = off["float32", who][0], off[half, who][1]
        bench.must(
            exact <= min(FLOAT32_SHARE * limit[0], nats),
            f"{subject}, {probe}, {who}: in float32 {exact:.1e} nats off, plain {half} "
            f"{limit[0]:.1e}",
        )
        bench.must(
            rounded <= 1.5 * limit[1],
            f"{subject}, {probe}, {who}: in {half} {rounded:.1e} nats off on average, plain "
            f"{limit[1]:.1e}",
        )


@torch.inference_mode()
def plain(model: Any, requests: Sequence[Any]) -> list[Any]:
    """Log-probs of each request from the model's own logits, softmax in float64, row by row."""
    logprobs = []
    for request in requests:
        ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
        count = len(request.targets)
        batch: Any = torch.from_numpy(ids[None]).long().to(model.device)
        logits = model(input_ids=batch, use_cache=False, logits_to_keep=count + 1).logits[0, :-1]
        rows = [
            some.double().log_softmax(-1).gather(1, targets[:, None])[:, 0]
            for some, targets in zip(logits.split(256), batch[0, -count:].split(256), strict=True)
        ]
        logprobs.append(torch.cat(rows).cpu().numpy())
    return logprobs


def _disturbed(requests: Sequence[Any]) -> list[Any]:
    """The same requests with one token in 16 of what comes before the first target exchanged."""
    changed = []
    for request in requests:
        ids, prefix = request.ids.copy(), request.prefix.copy()
        ids[: max(1, request.first_target) : 16] = ids[-1]
        prefix[::16] = ids[-1]
        changed.append(replace(request, ids=ids, prefix=prefix))
    return changed


def memory(bench: Bench, subject: Subject) -> None:
    """Take most of the memory away while windows are scored: the engine must get by with less.

    Only PyTorch's allocator of a GPU can be set to refuse; for a processor there is no such
    limit, and none is made up.
    """
    row = Row("memory", subject.spec.full_id, bench.dtype, bench.lengths[0],
              "windows at half the memory beside the weights")  # fmt: skip
    if not bench.on_gpu:
        bench.add(replace(row, note="skipped: PyTorch can't limit a processor's memory"))
        return
    conditions, tokens = bench.conditions("window"), subject.tokens(bench.lengths[0])
    engine = Engine(subject.load(bench.dtype), fused=bench.fused)
    expected = score(engine, conditions, tokens)
    _, peak = bench.measure(lambda: score(engine, conditions, tokens), 0)
    allocated = bench.give_back()
    limit = allocated + (peak - allocated) // 2
    total = torch.cuda.get_device_properties(bench.device).total_memory
    squeezed, ending = None, "went on"
    started = time.perf_counter()
    try:
        torch.cuda.set_per_process_memory_fraction(limit / total, bench.device)
        torch.cuda.reset_peak_memory_stats(bench.device)
        squeezed = score(engine, conditions, tokens)
    except TokenmartError as error:
        ending = f"gave up: {error}"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, bench.device)
    seconds = time.perf_counter() - started
    most = int(torch.cuda.max_memory_allocated(bench.device))
    after = bench.give_back()
    again = score(engine, conditions, tokens)
    largest, mean = differences(squeezed or again, expected)
    note = f"limit {limit / 2**30:.2f} GiB, before {peak / 2**30:.2f}; {ending}"
    bench.add(
        replace(row, seconds=seconds, peak_bytes=most, largest_nats=largest, mean_nats=mean,
                note=note)
    )  # fmt: skip
    bench.must(after <= allocated + LEFT_BEHIND, f"{subject}: memory stays taken after a refusal")
