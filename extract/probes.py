"""Probes: context conditions as pure functions from document tokens to requests.

No torch in here. A request says which tokens go in and which of them are scored; how that is
done at little cost is the engine's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warehouse.problem.spec import FullProbe, Probe, RetrievalProbe, WindowProbe

Ids = NDArray[np.int32]
NO_TOKENS: Ids = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Request:
    """Tokens to run and the ones among them to score.

    The model reads `trunk[:prefix_length]` and then `ids`; `ids[first_target:]` are scored.
    Requests that share a trunk share its KV cache.

    Attributes:
        segment: request within the document (window, excerpt).
        ids: shape (n,); tokens after the prefix.
        first_target: index in `ids` of the first scored token.
        positions: shape (n - first_target,); index in the document of each scored token.
        context_tokens: shape (n - first_target,); document tokens visible to its left.
        trunk: shape (p,); tokens before `ids`, empty for none.
        prefix_length: how many tokens of the trunk are visible.
    """

    segment: int
    ids: Ids
    first_target: int
    positions: Ids
    context_tokens: Ids
    trunk: Ids = field(default_factory=lambda: NO_TOKENS)
    prefix_length: int = 0

    @property
    def targets(self) -> Ids:
        """The scored token ids, shape (n - first_target,)."""
        return self.ids[self.first_target :]

    @property
    def key(self) -> tuple[bytes, bytes, int]:
        """What the scores depend on; requests with equal keys are the same work."""
        prefix = self.trunk[: self.prefix_length]
        return prefix.tobytes(), self.ids.tobytes(), self.first_target

    @property
    def length(self) -> int:
        """Tokens the last scored one could see, itself included."""
        return self.prefix_length + len(self.ids)


@dataclass(frozen=True)
class Condition:
    """One context condition of a problem: what the column `condition` names.

    `probe` is the name of the probe in the problem file that creates it.
    """

    name: str
    kind: str
    params: dict[str, Any]
    probe: str
    seed: int
    build: Callable[[Ids, int | None], list[Request]]


def _with_bos(tokens: Ids, bos: int | None) -> Ids:
    return tokens if bos is None else np.concatenate([np.array([bos], dtype=np.int32), tokens])


def _range(start: int, stop: int) -> Ids:
    return np.arange(start, stop, dtype=np.int32)


def full(tokens: Ids, bos: int | None) -> list[Request]:
    """Every token after everything before it. Without a BOS the first token can't be scored."""
    ids = _with_bos(tokens, bos)
    positions = _range(0 if bos is not None else 1, len(tokens))
    return [
        Request(segment=0, ids=ids, first_target=1, positions=positions, context_tokens=positions)
    ]


def window(tokens: Ids, bos: int | None, *, context: int, stride: int) -> list[Request]:
    """LongPPL's short context (arXiv 2410.23771): strided windows over [BOS] + document.

    For start = 0, stride, 2·stride … below T − context (T counts the BOS): run
    [start, start + context + stride) and score what comes after the first `context` tokens.
    Only the first window holds the BOS.
    """
    sequence = _with_bos(tokens, bos)
    offset = len(sequence) - len(tokens)
    requests = []
    for segment, start in enumerate(range(0, max(0, len(sequence) - context), stride)):
        end = min(start + context + stride, len(sequence))
        scored = _range(start + context, end)
        bos_inside = offset if start == 0 else 0
        requests.append(
            Request(
                segment=segment,
                ids=sequence[start:end],
                first_target=context,
                positions=scored - offset,
                context_tokens=scored - start - bos_inside,
            )
        )
    return requests


def excerpt_starts(
    length: int,
    *,
    excerpts: int,
    excerpt_tokens: int,
    answer_tokens: int,
    min_gap: int,
    region: float,
    seed: int,
) -> list[int]:
    """Starts of non-overlapping excerpts in the early and middle part of a document.

    An excerpt and its answer end at least `min_gap` tokens before the document's end and
    start within its first `region` share. Fewer come back when the document is too short.
    """
    span = excerpt_tokens + answer_tokens
    last = min(length - min_gap - span, int(length * region))
    slots = min(excerpts, (last + span) // span if last >= 0 else 0)
    if slots <= 0:
        return []
    rng = np.random.default_rng([seed, length])
    slack = last + span - slots * span
    gaps = np.sort(rng.integers(0, slack + 1, size=slots))
    return [int(gap) + index * span for index, gap in enumerate(gaps)]


def retrieval(
    tokens: Ids, bos: int | None, *, with_document: bool, probe: RetrievalProbe
) -> list[Request]:
    """The true continuation of each excerpt, after document + excerpt or after the excerpt.

    `context_tokens` counts the document (when visible), the excerpt and the answer so far.
    """
    starts = excerpt_starts(
        len(tokens),
        excerpts=probe.excerpts,
        excerpt_tokens=probe.excerpt_tokens,
        answer_tokens=probe.answer_tokens,
        min_gap=probe.min_gap,
        region=probe.region,
        seed=probe.seed,
    )
    trunk = _with_bos(tokens, bos)
    requests = []
    for segment, start in enumerate(starts):
        answer = start + probe.excerpt_tokens
        end = answer + probe.answer_tokens
        excerpt = tokens[start:end]
        positions = _range(answer, end)
        seen = positions - start
        if with_document:
            request = Request(
                segment=segment,
                ids=excerpt,
                first_target=probe.excerpt_tokens,
                positions=positions,
                context_tokens=seen + np.int32(len(tokens)),
                trunk=trunk,
                prefix_length=len(trunk),
            )
        else:
            ids = _with_bos(excerpt, bos)
            request = Request(
                segment=segment,
                ids=ids,
                first_target=len(ids) - probe.answer_tokens,
                positions=positions,
                context_tokens=seen,
            )
        requests.append(request)
    return requests


def conditions(probe: Probe) -> list[Condition]:
    """The context conditions of a probe of the problem file: one, or two for retrieval."""
    params = probe.model_dump(exclude={"kind", "name"})
    if isinstance(probe, FullProbe):
        return [Condition(probe.name, "full", params, probe.name, 0, full)]
    if isinstance(probe, WindowProbe):
        build = partial(window, context=probe.context, stride=probe.stride)
        return [Condition(probe.name, "window", params, probe.name, 0, build)]
    return [
        Condition(
            name=f"{probe.name}_{suffix}",
            kind=f"retrieval_{suffix}_document",
            params=params,
            probe=probe.name,
            seed=probe.seed,
            build=partial(retrieval, with_document=suffix == "with", probe=probe),
        )
        for suffix in ("with", "without")
    ]
