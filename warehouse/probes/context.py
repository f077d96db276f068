"""Probes that vary what precedes a token: how much of its document, or other text in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from warehouse.file_model import increasing
from warehouse.probes.probe import NO_PARAMETERS, PROBE_NAME, Probe
from warehouse.probes.request import (
    Condition,
    ConditionKind,
    DocumentTokens,
    Ids,
    Request,
    scores_end,
    span,
    with_bos,
)

FULL = ConditionKind("full", contiguous=True, whole_context=True, reads_document=True)
DIVERGENCE = ConditionKind("divergence", contiguous=True, whole_context=True)
WINDOW = ConditionKind("window", contiguous=True, revision=2)
RUNG = ConditionKind("ladder")
FAR_SHUFFLED = ConditionKind("far_shuffled")
FAR_FOREIGN = ConditionKind("far_foreign", reads_foreign=True)
HALVES_FOREIGN = ConditionKind("halves_foreign", reads_foreign=True)
COPY_PRESENT = ConditionKind("copy_present")
COPY_ABSENT = ConditionKind("copy_absent", reads_foreign=True)


class FullProbe(Probe):
    """Every token of the document, with everything before it as context."""

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (FULL,)

    kind: Literal["full"]
    name: str = Field(default="full", pattern=PROBE_NAME)

    def conditions(self) -> list[Condition]:
        """One condition."""
        return [self.condition(FULL)]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One: see `full_requests`."""
        return full_requests(document.ids, document.bos)


def full_requests(tokens: Ids, bos: int | None) -> list[Request]:
    """Every token after everything before it. Without a BOS the first token can't be scored."""
    positions = span(0 if bos is not None else 1, len(tokens))
    return [scores_end(0, with_bos(tokens, bos), positions, positions)]


class DivergenceProbe(Probe):
    """Every token as `full` scores it, and how far the prediction is from a reference model's.

    The table `divergences` has, for each token, the Kullback-Leibler divergence of both predictions
    over the whole vocabulary, in both directions, and whether the top-1 tokens are the same. Every
    model must have the reference's vocabulary. A document costs one forward of the model and, once
    in a run, one of the reference, whose hidden states wait in a scratch file.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (DIVERGENCE,)

    kind: Literal["divergence"]
    name: str = Field(default="divergence", pattern=PROBE_NAME)
    reference: str = Field(min_length=1)

    def conditions(self) -> list[Condition]:
        """One condition."""
        return [replace(self.condition(DIVERGENCE), reference=self.reference)]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One: see `full_requests`."""
        return full_requests(document.ids, document.bos)


class WindowProbe(Probe):
    """LongPPL's short context: blocks of `stride` tokens, each after `context` tokens."""

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (WINDOW,)

    kind: Literal["window"]
    name: str = Field(pattern=PROBE_NAME)
    context: int = Field(ge=1)
    stride: int = Field(ge=1)

    def conditions(self) -> list[Condition]:
        """One condition."""
        return [self.condition(WINDOW)]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One for each block: see `window_requests`."""
        return window_requests(document.ids, document.bos, context=self.context, stride=self.stride)


def window_requests(tokens: Ids, bos: int | None, *, context: int, stride: int) -> list[Request]:
    """Strided windows over [BOS] + document (arXiv 2410.23771), without the first one.

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
    contexts: Annotated[tuple[int, ...], Field(min_length=2), increasing(1)]
    targets: int = Field(ge=1)
    spans: int = Field(default=4, ge=1)
    slack: float = Field(default=0.125, gt=0, le=1)

    @model_validator(mode="after")
    def _spans_are_equal(self) -> LadderProbe:
        if self.targets % self.spans:
            raise ValueError(f"targets must be a multiple of spans ({self.spans})")
        return self

    def conditions(self) -> list[Condition]:
        """One condition for each context, named after it."""
        return [
            self.condition(RUNG, suffix=f"_{context}", context=context) for context in self.contexts
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One for each block of targets: see `ladder_requests`."""
        return ladder_requests(document, context=condition.params["context"], probe=self)


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


def ladder_requests(reading: DocumentTokens, *, context: int, probe: LadderProbe) -> list[Request]:
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


class FarProbe(Probe):
    """The last `targets` tokens of a document, with `near` tokens before them left as they are.

    The text before those is replaced: in `…_shuffled` by its own tokens in random order, in
    `…_foreign` by as many tokens of another document (Sun et al. 2021, arXiv 2109.09115,
    section 4). `compare: [[full, far_shuffled]]` compares such a text with the document, token by
    token. A condition costs one document; documents of near + targets tokens or less have no rows.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (FAR_SHUFFLED, FAR_FOREIGN)

    kind: Literal["far"]
    name: str = Field(default="far", pattern=PROBE_NAME)
    near: int = Field(ge=1)
    targets: int = Field(ge=1)
    replaced: tuple[Literal["shuffled", "foreign"], ...] = Field(
        default=("shuffled", "foreign"), min_length=1
    )
    seed: int = Field(default=0, ge=0, lt=2**63)

    def parameters(self) -> dict[str, Any]:
        """What the rows depend on: with another way to replace, the other conditions stay."""
        return self.model_dump(mode="json", exclude=NO_PARAMETERS | {"replaced"})

    def conditions(self) -> list[Condition]:
        """One condition for each way to replace the distant context."""
        kinds = {"shuffled": FAR_SHUFFLED, "foreign": FAR_FOREIGN}
        return [
            self.condition(kinds[name], suffix=f"_{name}", seed=self.seed)
            for name in dict.fromkeys(self.replaced)
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One: see `far_requests`."""
        return far_requests(document, kind=condition.kind, probe=self)


def far_requests(reading: DocumentTokens, *, kind: ConditionKind, probe: FarProbe) -> list[Request]:
    """The document's end, after near tokens of its own and distant ones that are replaced.

    `context_tokens` counts the tokens before it that are in their place.
    """
    length = len(reading.ids)
    far = length - probe.near - probe.targets
    if far < 1:
        return []
    if kind == FAR_FOREIGN:
        before = reading.foreign_ids[:far]
    else:
        order = np.random.default_rng([probe.seed, len(reading.text)]).permutation(far)
        before = reading.ids[order]
    ids = with_bos(np.concatenate([before, reading.ids[far:]]), reading.bos)
    positions = span(length - probe.targets, length)
    return [scores_end(0, ids, positions, positions - np.int32(far))]


class HalvesProbe(Probe):
    """The second half of a document's first `lengths` tokens, after another document's first half.

    `full` has the same tokens after their own first half: the difference of the log-probabilities
    estimates the mutual information of the halves (arXiv 2503.04725, its vCLUB estimator). A length
    costs as many tokens; documents that are shorter have no rows of it.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (HALVES_FOREIGN,)

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
            self.condition(HALVES_FOREIGN, suffix=f"_{length}", length=length)
            for length in self.lengths
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One: see `halves_requests`."""
        return halves_requests(document, length=condition.params["length"])


def halves_requests(reading: DocumentTokens, *, length: int) -> list[Request]:
    """The second half of the first `length` tokens, after another document's first half.

    `context_tokens` counts the document's own tokens before it. Without `length` tokens of the
    document, or half as many of the other one, there are no requests.
    """
    half = length // 2
    before, second = reading.foreign_ids[:half], reading.ids[half:length]
    if min(len(before), len(second)) < half:
        return []
    ids = with_bos(np.concatenate([before, second]), reading.bos)
    positions = span(half, length)
    return [scores_end(0, ids, positions, positions - np.int32(half))]


class CopyProbe(Probe):
    """Passages of each of `lengths`, scored at their second occurrence in a text.

    The first half of the repeated passage shows the model what to do; its second half is scored. In
    `…_present` a passage follows itself, in `…_absent` it follows as many tokens of another
    document. `passages` of each length are spread evenly over the document, without overlap; a
    document of no more than two lengths has none. Both texts begin with the model's BOS. A passage
    costs four times its length.

    With `order: random` the tokens of each half are in random order, the same in both texts:
    nothing but copying predicts them, as in the random sequences of Olsson et al. (2022).
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (COPY_PRESENT, COPY_ABSENT)

    kind: Literal["copy"]
    name: str = Field(default="copy", pattern=PROBE_NAME)
    lengths: Annotated[tuple[int, ...], Field(min_length=1), increasing(2)]
    passages: int = Field(default=1, ge=1)
    order: Literal["document", "random"] = "document"
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _seed_has_effect(self) -> CopyProbe:
        if self.order == "document" and "seed" in self.model_fields_set:
            raise ValueError("seed has no effect with order document; remove it")
        return self

    def parameters(self) -> dict[str, Any]:
        """What the rows depend on: in the document's order there is nothing to draw."""
        unused = {"order", "seed"} if self.order == "document" else set()
        return self.model_dump(mode="json", exclude=NO_PARAMETERS | unused)

    def conditions(self) -> list[Condition]:
        """Two conditions for each length, `…_present` and `…_absent`."""
        return [
            self.condition(
                kind,
                suffix=f"_{length}_{kind.name.removeprefix('copy_')}",
                seed=self.seed,
                length=length,
            )
            for length in self.lengths
            for kind in (COPY_PRESENT, COPY_ABSENT)
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One for each passage: see `copy_requests`."""
        return copy_requests(
            document, kind=condition.kind, length=condition.params["length"], probe=self
        )


def passage_starts(tokens: int, length: int, passages: int) -> list[int]:
    """First tokens of passages of a document, evenly spread.

    A text with the passage twice, and two BOS, is at most as long as the document with its own.

    Args:
        passages: at most so many.
    """
    count = min(passages, tokens // length) if tokens > 2 * length else 0
    slack = tokens - count * length
    return [place * length + slack * (place + 1) // (count + 1) for place in range(count)]


def copy_requests(
    reading: DocumentTokens, *, kind: ConditionKind, length: int, probe: CopyProbe
) -> list[Request]:
    """The second half of each passage, after the passage or another text, and its first half.

    `positions` are those of the document, also where a passage has another order;
    `context_tokens` counts the tokens before it, of either document. Without as many tokens of
    another document, there are no requests.
    """
    requests = []
    for segment, start in enumerate(passage_starts(len(reading.ids), length, probe.passages)):
        places = span(start, start + length)
        if probe.order == "random":
            draw = np.random.default_rng([probe.seed, len(reading.text), segment])
            halves = places[: length // 2], places[length // 2 :]
            places = np.concatenate([draw.permutation(half) for half in halves])
        passage: Ids = reading.ids[places]
        before = reading.foreign_ids[-length:] if kind == COPY_ABSENT else passage
        if len(before) < length:
            continue
        ids = np.concatenate([with_bos(before, reading.bos), with_bos(passage, reading.bos)])
        context = span(length + length // 2, 2 * length)
        requests.append(scores_end(segment, ids, places[length // 2 :], context))
    return requests
