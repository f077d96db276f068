"""Is the engine right: each probe against the plain float32 forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gpu_subjects import Subject, conditions_of, forwards, plain, requests_of, score
from gpu_table import Bench, Part, Row, give_back, out_of_memory_named

FLOAT32_SHARE = 1 / 50
"""Ours in float32 must be this much nearer to the reference than plain half precision is: TF32
has 8 times bfloat16's resolution and would fail, float32 has 65,536 times."""

CHANGED = "plain, part of the context changed"


def differences(ours: Sequence[Any], reference: Sequence[Any]) -> tuple[float, float]:
    """The largest and the mean difference in nats."""
    off = np.abs(np.concatenate(ours) - np.concatenate(reference))
    return float(off.max()), float(off.mean())


OWN_LAYERS = "ours, own layers"
"""Of a row without fused layers, where both are measured."""

FLOAT32_NATS = 2e-4
"""A small model's log-probs in float32 are as near as this to its plain forward's."""


def correctness(bench: Bench, subject: Subject) -> None:
    """Ours and plain half precision against the plain float32 forward, probe by probe."""
    _compare(bench, subject, {"ours": bench.fused})


def families_correctness(bench: Bench, subject: Subject) -> None:
    """The same for a small model, with fused layers and without."""
    _compare(bench, subject, {"ours": True, OWN_LAYERS: False}, "families", FLOAT32_NATS)


def _compare(
    bench: Bench,
    subject: Subject,
    layers: dict[str, bool],
    part: Part = "correctness",
    nats: float | None = None,
) -> None:
    from extract.scoring.engine import Engine

    count = bench.size.lengths[0]
    tokens = subject.tokens(count)
    half = "bfloat16" if bench.dtype == "float32" else bench.dtype
    for probe in ("full", "window", "retrieval"):
        requests = requests_of(conditions_of(bench, probe), tokens)
        work = forwards(subject, [request.length for request in requests])
        # float32 products run at a tenth of half precision's speed
        if not bench.fits(part, f"{subject.spec.full_id} {probe}", 14 * work):
            continue
        found: dict[tuple[str, str], Any] = {}
        told: list[str] = []
        told_layers: dict[str, str] = {}
        for dtype in ("float32", half):
            with out_of_memory_named(told):
                model = subject.load(dtype)
                found[dtype, "plain"] = plain(model, requests)
                if dtype == "float32":
                    found[dtype, CHANGED] = plain(model, _disturbed(requests))
                for who, fused in layers.items():
                    # an engine may change the model it is given
                    model = engine = None
                    give_back(bench.device)
                    model = subject.load(dtype)
                    engine = Engine(model, fused=fused)
                    told_layers.setdefault(who, engine.attention)
                    found[dtype, who] = score(engine, conditions_of(bench, probe), tokens)
            model = engine = None
            give_back(bench.device)
        reference = found.pop(("float32", "plain"), None)
        for (dtype, who), logprobs in found.items() if reference else ():
            largest, mean = differences(logprobs, reference)
            bench.add(
                Row(
                    part,
                    subject.spec.full_id,
                    dtype,
                    count,
                    f"{probe}, {who}",
                    largest_nats=largest,
                    mean_nats=mean,
                    note=told_layers.get(who, ""),
                )
            )
        for note in told:
            bench.add(Row(part, subject.spec.full_id, "", count, probe, note=note))
        for who in layers if reference and not told else ():
            what = f"{subject.spec.full_id}, {probe}, {who}"
            _judge(bench, what, who, found, reference, half, nats)


def _disturbed(requests: Sequence[Any]) -> list[Any]:
    """The same requests with one token in 16 of what comes before the first target exchanged."""
    from dataclasses import replace

    changed = []
    for request in requests:
        ids, prefix = request.ids.copy(), request.prefix.copy()
        ids[: max(1, request.first_target) : 16] = ids[-1]
        prefix[::16] = ids[-1]
        changed.append(replace(request, ids=ids, prefix=prefix))
    return changed


def _judge(
    bench: Bench, what: str, who: str, found: Any, reference: Any, half: str, nats: float | None
) -> None:
    limit = differences(found[half, "plain"], reference)
    exact = differences(found["float32", who], reference)
    rounded = differences(found[half, who], reference)
    bench.must(
        exact[0] <= min(FLOAT32_SHARE * limit[0], nats or limit[0]),
        f"{what}: in float32 {exact[0]:.1e} nats off, plain {half} {limit[0]:.1e}",
    )
    bench.must(
        rounded[1] <= 1.5 * limit[1],
        f"{what}: in {half} {rounded[1]:.1e} nats off on average, plain {limit[1]:.1e}",
    )
