"""Speed of the engine, compared with other ways to the same results, written plainly.

These run the model as it is given to them, so dtype and attention are those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gpu_subjects import Subject, requests_of, score
from gpu_table import Bench, Row
from torch.nn.functional import cross_entropy

from extract.failures import is_out_of_memory
from extract.planning.cost import Work, footprint, work_of
from extract.scoring.budgets import SUFFIX_TOKENS
from extract.scoring.divergence import Comparer, states_of
from extract.scoring.engine import Engine
from warehouse.errors import TokenmartError, first_line

HEAD_ROWS = 1024
"""Hidden states per product with the head where people do it in chunks."""


def predicted(bench: Bench, subject: Subject, count: int, conditions: Sequence[Any]) -> int:
    """Bytes that the product's own plan foresees."""
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
    tokens = subject.tokens(count)
    sets = {
        name: bench.conditions(*probes)
        for name, probes in {
            "full": ("full",),
            "window": ("window",),
            "full + window": ("full", "window"),
            "retrieval": ("retrieval",),
            "all probes": ("full", "window", "retrieval"),
        }.items()
    }
    peak = bench.peak if bench.dtype != "float32" else None
    ours: dict[str, float] = {}

    def timed(
        what: str, work: Callable[[], Any], read: int, spent: float, answers: str = "",
        needed: int | None = None, note: str = "", scale: float = 1.0,
    ) -> float | None:  # fmt: skip
        seconds, peak_bytes = None, None
        try:
            best, peak_bytes = bench.measure(work)
            seconds = best * scale
        except (TokenmartError, RuntimeError) as error:
            if not (isinstance(error, TokenmartError) or is_out_of_memory(error)):
                raise
            note = f"{first_line(error)}; {note}"
        bench.give_back()
        bench.add(
            Row(
                "speed", subject.spec.full_id, bench.dtype, count, what,
                seconds=seconds,
                tokens_per_second=read / seconds if seconds else None,
                share_of_peak=spent / seconds / peak if seconds and peak else None,
                times_ours=seconds / ours[answers] if seconds and answers in ours else None,
                predicted_bytes=needed,
                peak_bytes=peak_bytes,
                note=note,
            )
        )  # fmt: skip
        return seconds

    engine: Any = Engine(subject.load(bench.dtype), fused=bench.fused)
    for name, conditions in sets.items():
        cost = work_of([count], conditions)
        seconds = timed(
            f"ours: {name}", lambda c=conditions: score(engine, c, tokens),  # type: ignore[misc]
            cost.tokens, subject.flops(cost), needed=predicted(bench, subject, count, conditions),
            note=engine.attention,
        )  # fmt: skip
        if seconds is not None:
            ours[name] = seconds
    if not bench.fused:  # what others take is in the run with fused layers
        return
    # the engine may change the model it is given
    engine = None
    bench.give_back()
    model = subject.load(bench.dtype)
    once = subject.forwards([count])
    timed("plain forward, all logits", lambda: losses(model, tokens), count, once, "full")
    timed(
        "plain forward, head in chunks", lambda: losses_in_chunks(model, tokens), count, once,
        "full",
    )  # fmt: skip
    (window,) = (probe for probe in bench.probes if probe.kind == "window")
    windows = [len(request.ids) for request in requests_of(sets["window"], tokens)]
    timed(
        "LongPPL procedure", lambda: longppl(model, tokens, window.context, window.stride),
        count + sum(windows), once + subject.forwards(windows), "full + window",
    )  # fmt: skip
    asked = requests_of(sets["retrieval"], tokens)
    whole = [(np.concatenate([r.prefix[: r.prefix_length], r.ids]), len(r.targets)) for r in asked]
    # two of each kind represent all
    some = [*whole[:2], *whole[-2:]]
    timed(
        "a forward for each excerpt", lambda: [last_losses(model, *text) for text in some],
        sum(len(text) for text, _ in whole),
        sum(subject.flops(Work(len(text), n, len(text) ** 2 / 2)) for text, n in whole),
        "retrieval", note=f"{len(some)} of {len(whole)} measured", scale=len(whole) / len(some),
    )  # fmt: skip


def _batch(model: Any, tokens: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(tokens)[None]).long().to(model.device)


@torch.inference_mode()
def losses(model: Any, tokens: Any) -> Any:
    """Losses of every token but the first, shape (n - 1,), from all logits in float32, in one
    piece.
    """
    ids = _batch(model, tokens)
    logits = model(input_ids=ids, use_cache=False).logits[0].float()
    return cross_entropy(logits[:-1], ids[0, 1:], reduction="none").cpu()


@torch.inference_mode()
def losses_in_chunks(model: Any, tokens: Any) -> Any:
    """The same by the backbone, then head and cross-entropy over `HEAD_ROWS` rows at a time."""
    ids = _batch(model, tokens)
    hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0, :-1]
    head = model.get_output_embeddings()
    chunks = zip(hidden.split(HEAD_ROWS), ids[0, 1:].split(HEAD_ROWS), strict=True)
    return torch.cat(
        [cross_entropy(head(h).float(), own, reduction="none") for h, own in chunks]
    ).cpu()


@torch.inference_mode()
def last_losses(model: Any, tokens: Any, count: int) -> Any:
    """Losses of the last tokens of a text, from their logits alone."""
    ids = _batch(model, tokens)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=count + 1).logits[0, :-1]
    return cross_entropy(logits.float(), ids[0, -count:], reduction="none").cpu()


def longppl(model: Any, tokens: Any, context: int, stride: int) -> tuple[Any, list[Any]]:
    """The published procedure (arXiv 2410.23771): full logits, windows one by one, float32 losses.

    For start = 0, stride, 2·stride … below n − context it runs [start, start + context + stride)
    and takes the losses of what comes after the first `context` tokens.
    """
    return losses(model, tokens), [
        losses(model, tokens[start : start + context + stride])[context - 1 :]
        for start in range(0, len(tokens) - context, stride)
    ]


def divergence(bench: Bench, subject: Subject, count: int) -> None:
    """Time a model against another one of its shape, once scored apart and once compared."""
    tokens, conditions = subject.tokens(count), bench.conditions("full")
    (request,) = requests_of(conditions, tokens)
    engine = Engine(subject.load(bench.dtype), fused=bench.fused)
    reference = Engine(subject.load(bench.dtype, 1), fused=bench.fused)
    comparer = Comparer(engine, reference.head_weights)
    plain, _ = bench.measure(lambda: [score(e, conditions, tokens) for e in (engine, reference)])
    bench.give_back()
    seconds, peak = bench.measure(lambda: comparer.score(request, states_of(reference, request)))
    row = Row("divergence", subject.spec.full_id, bench.dtype, count, "both models scored", plain)
    bench.add(row)
    bench.add(
        Row("divergence", subject.spec.full_id, bench.dtype, count, "both, with their divergence",
            seconds, times_ours=seconds / plain, peak_bytes=peak)
    )  # fmt: skip
