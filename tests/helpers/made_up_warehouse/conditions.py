"""What probes find in a made-up document: tokens scored in each context, and how well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from made_up_warehouse.shape import Shape
from made_up_warehouse.text import Floats, Ints

Random = np.random.Generator


class Rows(NamedTuple):
    """Tokens scored in one condition; `segment` and `context_tokens` of each, or of all."""

    condition: str
    kind: str
    probe: str
    parameters: dict[str, Any]
    position: Ints
    segment: Any
    context_tokens: Any
    nll: Floats


def scores(nll: Floats, rng: Random) -> dict[str, NDArray[Any]]:
    """Columns that belong to a log-probability: entropy, rank and the top-1 log-prob."""
    logprob = (-nll).astype(np.float32)
    first = rng.random(len(nll)) < np.exp(-nll * 0.6)
    rank = np.where(first, 1, 2 + np.floor(np.expm1(np.minimum(nll, 9)) * rng.random(len(nll))))
    top = np.where(first, logprob, np.maximum(logprob, -nll * rng.random(len(nll))))
    return {
        "logprob": logprob,
        "entropy": (nll * 0.8 + rng.exponential(0.3, len(nll))).astype(np.float32),
        "rank": rank.astype(np.int32),
        "top_logprob": top.astype(np.float32),
        # a function of what is drawn above: no further draws
        "varentropy": (0.1 + (nll - 0.9 * top) ** 2 % 3).astype(np.float32),
    }


def full_rows(nll: Floats, first: int) -> Rows:
    """The whole document, from its first token with a prediction."""
    position = np.arange(first, len(nll))
    return Rows("full", "full", "full", {}, position, 0, position, nll[first:])


def window_rows(shape: Shape, nll: Floats, skill: float, rng: Random) -> Iterator[Rows]:
    """Short contexts; a few tokens lose much by them."""
    for window in shape.windows:
        where = np.arange(window.context + window.stride, len(nll))
        block = (where - window.context) // window.stride
        gain = np.where(
            rng.random(len(where)) < 0.15,
            rng.exponential(1.2 * skill, len(where)) - 0.15,
            rng.normal(0, 0.05, len(where)),
        )
        parameters = {"context": window.context, "stride": window.stride}
        visible = where - block * window.stride
        short = np.maximum(nll[where] + gain, 1e-5)
        yield Rows(window.name, "window", window.name, parameters, where, block, visible, short)


def retrieval_rows(
    shape: Shape, doc_id: int, nll: Floats, skill: float, rng: Random
) -> Iterator[Rows]:
    """Answers after the whole document, after the excerpt alone, and the controls."""
    probe = shape.retrieval
    if probe is None:
        return
    places = len(nll) - probe.excerpt_tokens - probe.answer_tokens - probe.min_gap
    if places < probe.excerpts:
        return
    starts = np.sort(rng.choice(places, size=probe.excerpts, replace=False))
    visible = probe.excerpt_tokens + np.arange(probe.answer_tokens)
    where = (starts[:, None] + visible).ravel()
    segment = np.repeat(np.arange(probe.excerpts), probe.answer_tokens)
    visible = np.tile(visible, probe.excerpts)
    parameters = {
        name: getattr(probe, name)
        for name in ("excerpts", "excerpt_tokens", "answer_tokens", "min_gap")
    }
    alone = nll[where] + rng.normal(0.1, 0.3, len(where)) ** 2
    after_all = alone * rng.uniform(0.9 - 0.4 * skill, 1.1, len(where))
    more = np.random.default_rng([shape.seed, doc_id, 2])
    sides = [
        ("with", "with_document", after_all, len(nll)),
        ("without", "without_document", alone, 0),
        *(
            (control, control, alone * more.uniform(0.7, 1.1, len(where)), len(nll))
            for control in probe.controls
        ),
    ]
    for side, kind, values, before in sides:
        yield Rows(
            f"retrieval_{side}", f"retrieval_{kind}", "retrieval", {**parameters, "seed": 0},
            where, segment, before + visible, values,
        )  # fmt: skip


def ladder_rows(shape: Shape, nll: Floats, skill: float, rng: Random) -> Iterator[Rows]:
    """The same targets under longer and longer contexts."""
    where = np.arange(len(nll) - 40, len(nll))
    for index, context in enumerate(shape.ladder):
        # not every document gains from every rung
        gain = rng.normal(0.6 * skill * (1 - 0.5**index), 0.05)
        values = np.maximum(nll[where] * rng.uniform(0.9, 1.1) - gain, 1e-4)
        parameters = {"contexts": list(shape.ladder), "context": context}
        yield Rows(f"ladder_{context}", "ladder", "ladder", parameters, where, 0, context, values)


def needle_rows(shape: Shape, nll: Floats, skill: float, rng: Random) -> Iterator[Rows]:
    """Sentences scored with a needle at each depth, and without one."""
    count = len(shape.depths)
    if not count:
        return
    sentences = [np.arange(60 * (n + 1), 60 * (n + 1) + 5 + n) for n in range(count)]
    absent = [np.maximum(nll[where] + 0.3, 1e-4) for where in sentences]
    present = [
        absent[sentence] * rng.uniform(0.1, 1.1 - 0.3 * skill * depth)
        for depth in shape.depths
        for sentence in range(count)
    ]
    parameters = {"depths": list(shape.depths), "rounds": count}
    for side, values in (("absent", absent), ("present", present)):
        where = [sentences[segment % count] for segment in range(len(values))]
        segment = np.repeat(np.arange(len(values)), [len(each) for each in where])
        yield Rows(
            f"needle_{side}", f"needle_{side}", "needle", parameters,
            np.concatenate(where), segment, len(nll), np.concatenate(values),
        )  # fmt: skip


def copy_rows(shape: Shape, nll: Floats, skill: float, rng: Random) -> Iterator[Rows]:
    """The second half of passages of each length, behind themselves and behind another text."""
    for length in shape.copies:
        where = np.arange(length // 2, length)
        parameters = {"lengths": list(shape.copies), "length": length, "passages": 1}
        present = nll[where] * rng.uniform(0.1, 1.1 - 0.3 * skill, len(where))
        for side, values in (("absent", nll[where]), ("present", present)):
            yield Rows(
                f"copy_{length}_{side}", f"copy_{side}", "copy", parameters,
                where, 0, where + length, values,
            )  # fmt: skip


def half_rows(shape: Shape, nll: Floats, skill: float, rng: Random) -> Iterator[Rows]:
    """The second half of each length, behind another document's first half."""
    for length in shape.halves:
        where = np.arange(length // 2, length)
        parameters = {"lengths": list(shape.halves), "length": length}
        values = nll[where] * rng.uniform(1.0, 1.2 + 0.4 * skill, len(where))
        visible = where - length // 2
        yield Rows(
            f"halves_{length}", "halves_foreign", "halves", parameters, where, 0, visible, values
        )
