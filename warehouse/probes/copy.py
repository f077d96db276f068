"""How well a model copies: a passage that occurs twice, and the same passage after another text."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import (
    Condition,
    ConditionKind,
    Ids,
    Reading,
    Request,
    span,
    with_bos,
)

PRESENT = ConditionKind("copy_present")
ABSENT = ConditionKind("copy_absent", reads_foreign=True)


class CopyProbe(Probe):
    """Passages of each of `lengths`, scored at their second occurrence in a text.

    The first half of the repeated passage shows the model what to do; its second half is scored. In
    `…_present` a passage follows itself, in `…_absent` it follows as many tokens of another
    document. `passages` of each length are spread evenly over the document, without overlap; a
    document of no more than two lengths has none. Both texts begin with the model's BOS. A passage
    costs four times its length.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (PRESENT, ABSENT)

    kind: Literal["copy"]
    name: str = Field(default="copy", pattern=PROBE_NAME)
    lengths: tuple[int, ...] = Field(min_length=1)
    passages: int = Field(default=1, ge=1)

    @field_validator("lengths")
    @classmethod
    def _increasing(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if lengths[0] < 2 or list(lengths) != sorted(set(lengths)):
            raise ValueError("lengths must increase, from 2 tokens on")
        return lengths

    def conditions(self) -> list[Condition]:
        """Two conditions for each length, `…_present` and `…_absent`."""
        return [
            self.condition(
                kind,
                partial(copy_requests, kind=kind, length=length, passages=self.passages),
                suffix=f"_{length}_{kind.name.removeprefix('copy_')}",
                length=length,
            )
            for length in self.lengths
            for kind in (PRESENT, ABSENT)
        ]


def passage_starts(tokens: int, length: int, passages: int) -> list[int]:
    """First tokens of passages of a document, evenly spread.

    A text with the passage twice, and two BOS, is at most as long as the document with its own.

    Args:
        tokens: of the document.
        length: of a passage.
        passages: at most so many.
    """
    count = min(passages, tokens // length) if tokens > 2 * length else 0
    slack = tokens - count * length
    return [place * length + slack * (place + 1) // (count + 1) for place in range(count)]


def copy_requests(
    reading: Reading, *, kind: ConditionKind, length: int, passages: int
) -> list[Request]:
    """The second half of each passage, after the passage or another text, and its first half.

    `context_tokens` counts the tokens before it, of either document. Without as many tokens of
    another document, there are no requests.
    """
    requests = []
    for segment, start in enumerate(passage_starts(len(reading.ids), length, passages)):
        passage: Ids = reading.ids[start : start + length]
        before = passage
        if kind == ABSENT:
            assert reading.foreign is not None, "extraction gives one to a kind that reads_foreign"
            before = reading.foreign.ids[-length:]
            if len(before) < length:
                continue
        first = with_bos(before, reading.bos)
        ids = np.concatenate([first, with_bos(passage, reading.bos)])
        positions = span(start + length // 2, start + length)
        requests.append(
            Request(
                segment=segment,
                ids=ids,
                first_target=len(ids) - len(positions),
                positions=positions,
                context_tokens=positions - start + np.int32(length),
            )
        )
    return requests
