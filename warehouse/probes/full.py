"""The whole document, every token after everything before it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import Condition, ConditionKind, Ids, Request, span, with_bos

FULL = ConditionKind("full", contiguous=True, whole_context=True, reads_document=True)


class FullProbe(Probe):
    """Every token of the document, with everything before it as context."""

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (FULL,)

    kind: Literal["full"]
    name: str = Field(default="full", pattern=PROBE_NAME)

    def conditions(self) -> list[Condition]:
        """One condition."""
        return [self.condition(FULL, lambda reading: full_requests(reading.ids, reading.bos))]


def full_requests(tokens: Ids, bos: int | None) -> list[Request]:
    """Every token after everything before it. Without a BOS the first token can't be scored."""
    positions = span(0 if bos is not None else 1, len(tokens))
    return [
        Request(
            segment=0,
            ids=with_bos(tokens, bos),
            first_target=1,
            positions=positions,
            context_tokens=positions,
        )
    ]
