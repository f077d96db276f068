"""LongPPL's short context: strided windows over the document (arXiv 2410.23771)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

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

WINDOW = ConditionKind("window", contiguous=True, revision=2)


class WindowProbe(Probe):
    """LongPPL's short context: blocks of `stride` tokens, each after `context` tokens."""

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (WINDOW,)

    kind: Literal["window"]
    name: str = Field(pattern=PROBE_NAME)
    context: int = Field(ge=1)
    stride: int = Field(ge=1)

    def conditions(self) -> list[Condition]:
        """One condition."""

        def build(reading: Reading) -> list[Request]:
            return window_requests(
                reading.ids, reading.bos, context=self.context, stride=self.stride
            )

        return [self.condition(WINDOW, build)]


def window_requests(tokens: Ids, bos: int | None, *, context: int, stride: int) -> list[Request]:
    """Strided windows over [BOS] + document (arXiv 2410.23771), but for the first.

    For start = stride, 2·stride … below T − context (T counts the BOS): run
    [start, start + context + stride) and score what comes after the first `context` tokens. The
    procedure's window from 0 reads all text before its targets: it would repeat rows of
    the full context, and no token gains anything there.
    """
    sequence = with_bos(tokens, bos)
    offset = len(sequence) - len(tokens)
    requests = []
    for start in range(stride, max(0, len(sequence) - context), stride):
        end = min(start + context + stride, len(sequence))
        scored = span(start + context, end)
        requests.append(
            Request(
                segment=start // stride,
                ids=sequence[start:end],
                first_target=context,
                positions=scored - offset,
                context_tokens=scored - start,
            )
        )
    return requests
