"""Speed of the engine, compared with other programs for the same results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import baselines
import numpy as np
from gpu_subjects import Subject, conditions_of, flops_of, forwards, requests_of, score
from gpu_table import (
    Bench,
    Row,
    device_name,
    give_back,
    measure,
    out_of_memory_named,
    peak_tflops,
)


def predicted(bench: Bench, subject: Subject, count: int, conditions: Sequence[Any]) -> int:
    """Bytes that the product's own plan foresees."""
    from extract.planning.cost import footprint
    from extract.scoring.budgets import SUFFIX_TOKENS

    suffixes = any(condition.kind.shares_prefix for condition in conditions)
    return footprint(
        subject.spec,
        subject.size,
        dtype=bench.dtype,
        device=bench.device,
        longest=count,
        suffix_tokens=SUFFIX_TOKENS if suffixes else 0,
    ).total


def speed(bench: Bench, subject: Subject, count: int) -> None:
    """Ours for each probe and for all, and what others take for the same answers."""
    from extract.planning.cost import available_memory, work_of
    from extract.scoring.engine import Engine

    tokens = subject.tokens(count)
    sets = {
        "full": conditions_of(bench, "full"),
        "window": conditions_of(bench, "window"),
        "full + window": conditions_of(bench, "full", "window"),
        "retrieval": conditions_of(bench, "retrieval"),
        "all probes": conditions_of(bench, "full", "window", "retrieval"),
    }
    cost = {name: work_of([count], conditions) for name, conditions in sets.items()}
    flops = {
        name: flops_of(subject, work.tokens, work.rows, work.pairs) for name, work in cost.items()
    }
    calls = 1 + bench.size.repeats
    # compared with ours: two forwards, the LongPPL procedure, and two forwards for retrieval
    total = calls * (sum(flops.values()) + flops["full + window"] + 4 * forwards(subject, [count]))
    if not bench.fits("speed", f"{subject.spec.full_id}, {count:,} tokens", total, 20.0):
        return
    there = available_memory(bench.device)
    if predicted(bench, subject, count, sets["all probes"]) > there:
        note = f"does not fit into {there / 2**30:.0f} GiB; not tried"
        needed = predicted(bench, subject, count, sets["all probes"])
        bench.add(
            Row("speed", subject.spec.full_id, bench.dtype, count, "all probes",
                predicted_bytes=needed, note=note)
        )  # fmt: skip
        return
    peak = peak_tflops(device_name(bench.device)) if bench.dtype != "float32" else None
    unknown = "" if peak or not bench.on_gpu else "unknown device or dtype: no share of a peak"
    ours: dict[str, float] = {}

    def timed(
        what: str, work: Callable[[], Any], read: int, spent: float, answers: str = "",
        needed: int | None = None, note: str = "", scale: float = 1.0,
    ) -> float | None:  # fmt: skip
        told: list[str] = []
        seconds, peak_bytes, found = None, None, None
        with out_of_memory_named(told):
            found = measure(work, bench.device, bench.size.repeats)
        give_back(bench.device)
        if found is not None:
            seconds, peak_bytes = found[0] * scale, found[1]
        bench.add(
            Row(
                "speed", subject.spec.full_id, bench.dtype, count, what,
                seconds=seconds,
                tokens_per_second=read / seconds if seconds else None,
                share_of_peak=spent / seconds / peak / 1e12 if seconds and peak else None,
                times_ours=seconds / ours[answers] if seconds and answers in ours else None,
                predicted_bytes=needed,
                peak_bytes=peak_bytes,
                note="; ".join(filter(None, [*told, note])),
            )
        )  # fmt: skip
        return seconds

    model = subject.load(bench.dtype)
    engine = Engine(model, fused=bench.fused)
    for name, conditions in sets.items():
        seconds = timed(
            f"ours: {name}", lambda c=conditions: score(engine, c, tokens),  # type: ignore[misc]
            cost[name].tokens, flops[name], needed=predicted(bench, subject, count, conditions),
            note="; ".join(filter(None, [str(engine.attention), unknown])),
        )  # fmt: skip
        if seconds is not None:
            ours[name] = seconds
    if not bench.fused:  # what others take is in the run with fused layers
        return
    # the engine may change the model it is given
    engine = model = None
    give_back(bench.device)
    model = subject.load(bench.dtype)
    once = forwards(subject, [count])
    timed("plain forward, all logits", baselines.all_logits(model, tokens), count, once, "full")
    timed(
        "plain forward, head in chunks", baselines.chunked_head(model, tokens), count, once, "full"
    )
    windows = [len(request.ids) for request in requests_of(sets["window"], tokens)]
    timed(
        "LongPPL procedure", baselines.longppl_procedure(model, tokens, *bench.size.window),
        count + sum(windows), once + forwards(subject, windows), "full + window",
    )  # fmt: skip
    asked = requests_of(sets["retrieval"], tokens)
    whole = [(np.concatenate([r.prefix[: r.prefix_length], r.ids]), len(r.targets)) for r in asked]
    # two of each kind represent all
    some = [*whole[:2], *whole[-2:]]
    timed(
        "a forward for each excerpt", baselines.last_logits(model, some),
        sum(len(text) for text, _ in whole),
        sum(flops_of(subject, len(text), rows, len(text) ** 2 / 2) for text, rows in whole),
        "retrieval", note=f"{len(some)} of {len(whole)} measured", scale=len(whole) / len(some),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        timed(
            "lm-evaluation-harness, loglikelihood",
            baselines.harness_loglikelihood(model, tiny_tokenizer(Path(folder)), tokens),
            count, once, "full",
        )  # fmt: skip


def tiny_tokenizer(folder: Path) -> Any:
    """A small trained tokenizer, for programs that need one in addition to tokens."""
    from tiny_models import make_tokenizer
    from transformers import AutoTokenizer

    make_tokenizer(folder, bos=True)
    return AutoTokenizer.from_pretrained(folder)
