"""How much the first half of a text tells about its second half, by the text's length."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import Condition, ConditionKind, Reading, Request, span, with_bos

FOREIGN = ConditionKind("halves_foreign", reads_foreign=True)


class HalvesProbe(Probe):
    """The second half of a document's first `lengths` tokens, after another document's first half.

    `full` has the same tokens after their own first half: the difference of the log-probabilities
    estimates the mutual information of the halves (arXiv 2503.04725, its vCLUB estimator). A length
    costs as many tokens; documents that are shorter have no rows of it.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (FOREIGN,)

    kind: Literal["halves"]
    name: str = Field(default="halves", pattern=PROBE_NAME)
    lengths: tuple[int, ...] = Field(min_length=2)

    @field_validator("lengths")
    @classmethod
    def _even_and_increasing(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        odd = any(length < 2 or length % 2 for length in lengths)
        if odd or list(lengths) != sorted(set(lengths)):
            raise ValueError("lengths must be even and increase, from 2 tokens on")
        return lengths

    def conditions(self) -> list[Condition]:
        """One condition for each length, named after it."""
        return [
            self.condition(
                FOREIGN,
                partial(halves_requests, length=length),
                suffix=f"_{length}",
                length=length,
            )
            for length in self.lengths
        ]


def halves_requests(reading: Reading, *, length: int) -> list[Request]:
    """The second half of the first `length` tokens, after another document's first half.

    `context_tokens` counts the document's own tokens before it. Without `length` tokens of the
    document, or half as many of the other one, there are no requests.
    """
    assert reading.foreign is not None, "extraction gives one to a kind that reads_foreign"
    half = length // 2
    before, second = reading.foreign.ids[:half], reading.ids[half:length]
    if min(len(before), len(second)) < half:
        return []
    ids = with_bos(np.concatenate([before, second]), reading.bos)
    positions = span(half, length)
    return [
        Request(
            segment=0,
            ids=ids,
            first_target=len(ids) - half,
            positions=positions,
            context_tokens=positions - np.int32(half),
        )
    ]
