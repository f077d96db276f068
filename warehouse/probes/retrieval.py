"""Does the model look things up: true continuations of excerpts, with and without the document."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import Condition, ConditionKind, Ids, Request, span, with_bos

WITH_DOCUMENT = ConditionKind("retrieval_with_document", reads_document=True, branches=True)
WITHOUT_DOCUMENT = ConditionKind("retrieval_without_document")


class RetrievalProbe(Probe):
    """True continuations of excerpts, scored after document + excerpt, and after the excerpt.

    Excerpts start in the first `region` share of the document, at least `min_gap` tokens
    before its end, drawn without overlap with the given seed.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (WITH_DOCUMENT, WITHOUT_DOCUMENT)

    kind: Literal["retrieval"]
    name: str = Field(default="retrieval", pattern=PROBE_NAME)
    excerpts: int = Field(ge=1)
    excerpt_tokens: int = Field(ge=1)
    answer_tokens: int = Field(ge=1)
    min_gap: int = Field(ge=0)
    region: float = Field(default=0.66, gt=0, le=1)
    seed: int = 0

    def conditions(self) -> list[Condition]:
        """Two conditions, `…_with` and `…_without` the document."""
        build = partial(retrieval_requests, probe=self)
        return [
            self.condition(kind, partial(build, with_document=seen), suffix=suffix, seed=self.seed)
            for kind, seen, suffix in (
                (WITH_DOCUMENT, True, "_with"),
                (WITHOUT_DOCUMENT, False, "_without"),
            )
        ]


def excerpt_starts(length: int, probe: RetrievalProbe) -> list[int]:
    """Starts of non-overlapping excerpts in the early and middle part of a document.

    An excerpt and its answer end at least `min_gap` tokens before the document's end and
    start within its first `region` share. Fewer come back when the document is too short.

    Args:
        length: tokens of the document.
        probe: the parameters.
    """
    taken = probe.excerpt_tokens + probe.answer_tokens
    last = min(length - probe.min_gap - taken, int(length * probe.region))
    slots = min(probe.excerpts, (last + taken) // taken if last >= 0 else 0)
    if slots <= 0:
        return []
    rng = np.random.default_rng([probe.seed, length])
    slack = last + taken - slots * taken
    gaps = np.sort(rng.integers(0, slack + 1, size=slots))
    return [int(gap) + index * taken for index, gap in enumerate(gaps)]


def retrieval_requests(
    tokens: Ids, bos: int | None, *, with_document: bool, probe: RetrievalProbe
) -> list[Request]:
    """The true continuation of each excerpt, after document + excerpt or after the excerpt.

    `context_tokens` counts the document (when visible), the excerpt and the answer so far.
    """
    trunk = with_bos(tokens, bos)
    requests = []
    for segment, start in enumerate(excerpt_starts(len(tokens), probe)):
        answer = start + probe.excerpt_tokens
        end = answer + probe.answer_tokens
        excerpt = tokens[start:end]
        positions = span(answer, end)
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
            ids = with_bos(excerpt, bos)
            request = Request(
                segment=segment,
                ids=ids,
                first_target=len(ids) - probe.answer_tokens,
                positions=positions,
                context_tokens=seen,
            )
        requests.append(request)
    return requests
