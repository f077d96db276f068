"""What probes find in a made-up document: rows of a ladder, of needles and of retrieval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from made_up_warehouse.shape import Retrieval, Shape
from made_up_warehouse.text import Floats, Ints


def scores(nll: Floats, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
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


def add_ladder(
    shape: Shape,
    add: Any,
    doc_id: int,
    nll: Floats,
    at: Any,
    skill: float,
    rng: np.random.Generator,
) -> None:
    """The same targets under longer and longer contexts."""
    contexts = shape.ladder
    where = np.arange(len(nll) - 40, len(nll))
    for index, context in enumerate(contexts):
        # not every document gains from every rung
        gain = rng.normal(0.6 * skill * (1 - 0.5**index), 0.05)
        add(
            f"ladder_{context}",
            "ladder",
            "ladder",
            {"contexts": list(contexts), "context": context},
            doc_id,
            segment=np.zeros(len(where)),
            context_tokens=np.full(len(where), context),
            **at(where),
            **scores(np.maximum(nll[where] * rng.uniform(0.9, 1.1) - gain, 1e-4), rng),
        )


def add_copies(
    shape: Shape,
    add: Any,
    doc_id: int,
    nll: Floats,
    at: Any,
    skill: float,
    rng: np.random.Generator,
) -> None:
    """The second half of passages of each length, behind themselves and behind another text."""
    for length in shape.copies:
        where = np.arange(length // 2, length)
        for side, values in (
            ("absent", nll[where]),
            ("present", nll[where] * rng.uniform(0.1, 1.1 - 0.3 * skill, len(where))),
        ):
            add(
                f"copy_{length}_{side}",
                f"copy_{side}",
                "copy",
                {"lengths": list(shape.copies), "length": length, "passages": 1},
                doc_id,
                segment=np.zeros(len(where)),
                context_tokens=where + length,
                **at(where),
                **scores(values, rng),
            )


def add_halves(
    shape: Shape,
    add: Any,
    doc_id: int,
    nll: Floats,
    at: Any,
    skill: float,
    rng: np.random.Generator,
) -> None:
    """The second half of each length, behind another document's first half."""
    for length in shape.halves:
        where = np.arange(length // 2, length)
        add(
            f"halves_{length}",
            "halves_foreign",
            "halves",
            {"lengths": list(shape.halves), "length": length},
            doc_id,
            segment=np.zeros(len(where)),
            context_tokens=where - length // 2,
            **at(where),
            **scores(nll[where] * rng.uniform(1.0, 1.2 + 0.4 * skill, len(where)), rng),
        )


def add_needles(
    shape: Shape,
    add: Any,
    doc_id: int,
    nll: Floats,
    at: Any,
    skill: float,
    rng: np.random.Generator,
) -> None:
    """Sentences scored with a needle at each depth, and without one."""
    depths = shape.depths
    count = len(depths)
    sentences = [np.arange(60 * (n + 1), 60 * (n + 1) + 5 + n) for n in range(count)]
    absent = [np.maximum(nll[where] + 0.3, 1e-4) for where in sentences]
    scored: dict[str, list[tuple[int, Ints, Floats]]] = {
        "absent": list(zip(range(count), sentences, absent, strict=True)),
        "present": [
            (
                depth * count + sentence,
                sentences[sentence],
                absent[sentence] * rng.uniform(0.1, 1.1 - 0.3 * skill * depths[depth]),
            )
            for depth in range(count)
            for sentence in range(count)
        ],
    }
    for side, rows in scored.items():
        if not rows:
            return
        where = np.concatenate([positions for _, positions, _ in rows])
        add(
            f"needle_{side}",
            f"needle_{side}",
            "needle",
            {"depths": list(depths), "rounds": count},
            doc_id,
            segment=np.concatenate([np.full(len(w), s) for s, w, _ in rows]),
            context_tokens=np.full(len(where), len(nll)),
            **at(where),
            **scores(np.concatenate([values for _, _, values in rows]), rng),
        )


def add_retrieval(
    shape: Shape,
    add: Any,
    retrieval: Retrieval,
    doc_id: int,
    nll: Floats,
    at: Any,
    skill: float,
    rng: np.random.Generator,
) -> None:
    """Answers after the whole document, after the excerpt alone, and the controls."""
    span = retrieval.excerpt_tokens + retrieval.answer_tokens
    room = len(nll) - span - retrieval.min_gap
    if room < retrieval.excerpts:
        return
    starts = np.sort(rng.choice(room, size=retrieval.excerpts, replace=False))
    answer = np.arange(retrieval.answer_tokens)
    where = (starts[:, None] + retrieval.excerpt_tokens + answer).ravel()
    segment = np.repeat(np.arange(retrieval.excerpts), retrieval.answer_tokens)
    visible = np.tile(retrieval.excerpt_tokens + answer, retrieval.excerpts)
    parameters = {
        "excerpts": retrieval.excerpts,
        "excerpt_tokens": retrieval.excerpt_tokens,
        "answer_tokens": retrieval.answer_tokens,
        "min_gap": retrieval.min_gap,
        "seed": 0,
    }
    alone = nll[where] + rng.normal(0.1, 0.3, len(where)) ** 2
    after_all = alone * rng.uniform(0.9 - 0.4 * skill, 1.1, len(where))
    sides = [
        ("with", "with_document", after_all, len(nll) + visible),
        ("without", "without_document", alone, visible),
    ]
    more = np.random.default_rng([shape.seed, doc_id, 2])
    for control in retrieval.controls:
        values = alone * more.uniform(0.7, 1.1, len(where))
        sides.append((control, control, values, len(nll) + visible))
    for side, named, values, seen in sides:
        add(
            f"retrieval_{side}",
            f"retrieval_{named}",
            "retrieval",
            parameters,
            doc_id,
            segment=segment,
            context_tokens=seen,
            **at(where),
            **scores(values, rng),
        )
