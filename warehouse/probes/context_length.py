"""Probes that vary how much of a document precedes a token: all of it, windows, a ladder."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import (
    Condition,
    ConditionKind,
    Ids,
    Reading,
    Request,
    scores_end,
    span,
    with_bos,
)

FULL = ConditionKind("full", contiguous=True, whole_context=True, reads_document=True)
WINDOW = ConditionKind("window", contiguous=True, revision=2)
RUNG = ConditionKind("ladder")


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
    return [scores_end(0, with_bos(tokens, bos), positions, positions)]


class WindowProbe(Probe):
    """LongPPL's short context: blocks of `stride` tokens, each after `context` tokens."""

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (WINDOW,)

    kind: Literal["window"]
    name: str = Field(pattern=PROBE_NAME)
    context: int = Field(ge=1)
    stride: int = Field(ge=1)

    def conditions(self) -> list[Condition]:
        """One condition."""
        sizes = {"context": self.context, "stride": self.stride}
        return [
            self.condition(WINDOW, lambda read: window_requests(read.ids, read.bos, **sizes)),
        ]


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
        segment = start // stride
        requests.append(scores_end(segment, sequence[start:end], scored - offset, scored - start))
    return requests


class LadderProbe(Probe):
    """The same targets after each of `contexts` tokens, one condition for each.

    Targets are `spans` passages of a document with `targets` tokens in total, spread evenly over
    the text after the longest context that fits into the document. A context slides in steps of
    `slack` of its length: a token has at least `context` tokens of context and less than (1 +
    slack) · `context`. A rung costs about targets · (1 + 1 / slack) tokens, or spans · context if a
    step is longer than a span. Every text begins with the model's BOS, unlike in the window probe,
    so rungs differ only in their context.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (RUNG,)

    kind: Literal["ladder"]
    name: str = Field(default="ladder", pattern=PROBE_NAME)
    contexts: tuple[int, ...] = Field(min_length=2)
    targets: int = Field(ge=1)
    spans: int = Field(default=4, ge=1)
    slack: float = Field(default=0.125, gt=0, le=1)

    @field_validator("contexts")
    @classmethod
    def _increasing(cls, contexts: tuple[int, ...]) -> tuple[int, ...]:
        if contexts[0] < 1 or list(contexts) != sorted(set(contexts)):
            raise ValueError("contexts must increase, from 1 token on")
        return contexts

    @model_validator(mode="after")
    def _spans_are_equal(self) -> LadderProbe:
        if self.targets % self.spans:
            raise ValueError(f"targets must be a multiple of spans ({self.spans})")
        return self

    def conditions(self) -> list[Condition]:
        """One condition for each context, named after it."""
        return [
            self.condition(
                RUNG,
                partial(ladder_requests, context=context, probe=self),
                suffix=f"_{context}",
                context=context,
            )
            for context in self.contexts
        ]


def target_spans(length: int, probe: LadderProbe) -> list[tuple[int, int]]:
    """Start and end of the stretches whose tokens are scored, the same for every context.

    They begin where the longest context ends that leaves room for all targets; a document
    without room for the shortest has none.

    Args:
        length: tokens of the document.
    """
    fitting = [context for context in probe.contexts if context + probe.targets <= length]
    if not fitting:
        return []
    first, size = fitting[-1], probe.targets // probe.spans
    steps = max(1, probe.spans - 1)
    # a single span is at the document's end
    places = range(probe.spans) if probe.spans > 1 else [steps]
    starts = [first + place * (length - size - first) // steps for place in places]
    return [(start, start + size) for start in starts]


def ladder_requests(reading: Reading, *, context: int, probe: LadderProbe) -> list[Request]:
    """The targets in blocks, each after at least `context` tokens of the document.

    A context that is longer than the document has no requests.
    """
    tokens: Ids = reading.ids
    step = max(1, int(context * probe.slack))
    spans = target_spans(len(tokens), probe)
    # a context that not all targets have would be of other targets
    if not spans or context > spans[0][0]:
        return []
    blocks = [(at, min(at + step, end)) for start, end in spans for at in range(start, end, step)]
    requests = []
    for segment, (at, end) in enumerate(blocks):
        ids = with_bos(tokens[at - context : end], reading.bos)
        positions = span(at, end)
        requests.append(scores_end(segment, ids, positions, positions - (at - context)))
    return requests
