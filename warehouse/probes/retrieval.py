"""Does the model look things up: true continuations of excerpts, with and without the document.

Controls measure other effects of a prefix than retrieval: another document (topic, distraction),
the same words in another order, the document's end only.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from warehouse.probes.probe import NO_PARAMETERS, PROBE_NAME, Probe
from warehouse.probes.request import (
    NO_TOKENS,
    Condition,
    ConditionKind,
    Ids,
    Reading,
    Request,
    span,
    with_bos,
)
from warehouse.probes.words import word_start, word_starts

WITH_DOCUMENT = ConditionKind("retrieval_with_document", reads_document=True, shares_prefix=True)
WITHOUT_DOCUMENT = ConditionKind("retrieval_without_document")
FOREIGN = ConditionKind("retrieval_foreign", shares_prefix=True, reads_foreign=True)
SHUFFLED = ConditionKind("retrieval_shuffled", shares_prefix=True)
TAIL = ConditionKind("retrieval_tail", shares_prefix=True)

_TOKENS = ("excerpt_tokens", "answer_tokens", "min_gap")
_CHARACTERS = ("excerpt_characters", "answer_characters", "min_gap_characters")


class RetrievalProbe(Probe):
    """True continuations of excerpts, scored after document + excerpt, and after the excerpt.

    Excerpts start in the first `region` share of the document, at least `min_gap` tokens
    before its end, drawn without overlap with the given seed. Counted in characters, models with
    different tokenizers are scored on the same text (see `excerpt_places`); counted in tokens, on
    different passages.

    `controls` replace the document: `foreign` by another document, `shuffled` by its words in
    random order, `tail` by its last `min_gap` tokens, which no excerpt overlaps.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (
        WITH_DOCUMENT,
        WITHOUT_DOCUMENT,
        FOREIGN,
        SHUFFLED,
        TAIL,
    )

    kind: Literal["retrieval"]
    name: str = Field(default="retrieval", pattern=PROBE_NAME)
    excerpts: int = Field(ge=1)
    excerpt_tokens: int | None = Field(default=None, ge=1)
    answer_tokens: int | None = Field(default=None, ge=1)
    min_gap: int | None = Field(default=None, ge=0)
    excerpt_characters: int | None = Field(default=None, ge=1)
    answer_characters: int | None = Field(default=None, ge=1)
    min_gap_characters: int | None = Field(default=None, ge=0)
    region: float = Field(default=0.66, gt=0, le=1)
    seed: int = 0
    controls: tuple[Literal["foreign", "shuffled", "tail"], ...] = ()

    @model_validator(mode="after")
    def _one_unit(self) -> RetrievalProbe:
        counted = [name for name in (*_TOKENS, *_CHARACTERS) if getattr(self, name) is not None]
        if tuple(counted) not in (_TOKENS, _CHARACTERS):
            raise ValueError(
                f"count in one unit: give {', '.join(_TOKENS)}, or {', '.join(_CHARACTERS)}"
            )
        if "tail" in self.controls and self.gap == 0:
            raise ValueError(f"control tail is the last {counted[-1]} of a document; give some")
        return self

    @property
    def in_characters(self) -> bool:
        """Whether the sizes are counted in characters."""
        return self.excerpt_characters is not None

    @property
    def excerpt(self) -> int:
        """Length of an excerpt, in the probe's unit."""
        return self.excerpt_characters or self.excerpt_tokens or 0

    @property
    def answer(self) -> int:
        """Length of an answer, in the probe's unit."""
        return self.answer_characters or self.answer_tokens or 0

    @property
    def gap(self) -> int:
        """Least distance between an answer and the document's end, in the probe's unit."""
        return self.min_gap_characters or self.min_gap or 0

    def parameters(self) -> dict[str, Any]:
        """Settings that the excerpts depend on: another control doesn't change the other
        conditions.
        """
        return self.model_dump(mode="json", exclude=NO_PARAMETERS | {"controls"}, exclude_none=True)

    def conditions(self) -> list[Condition]:
        """Two conditions, `…_with` and `…_without` the document, and one for each control."""
        kinds = {"_with": WITH_DOCUMENT, "_without": WITHOUT_DOCUMENT}
        known = {"foreign": FOREIGN, "shuffled": SHUFFLED, "tail": TAIL}
        kinds |= {f"_{name}": known[name] for name in dict.fromkeys(self.controls)}
        return [
            self.condition(
                kind,
                partial(retrieval_requests, kind=kind, probe=self),
                suffix=suffix,
                seed=self.seed,
            )
            for suffix, kind in kinds.items()
        ]


def excerpt_starts(length: int, probe: RetrievalProbe) -> list[int]:
    """Starts of non-overlapping excerpts in the early and middle part of a document.

    An excerpt and its answer end at least `gap` before the document's end and start within its
    first `region` share. Fewer come back when the document is too short.

    Args:
        length: of the document, in the probe's unit.
        probe: the parameters.
    """
    taken = probe.excerpt + probe.answer
    last = min(length - probe.gap - taken, int(length * probe.region))
    slots = min(probe.excerpts, (last + taken) // taken if last >= 0 else 0)
    if slots <= 0:
        return []
    rng = np.random.default_rng([probe.seed, length])
    slack = last + taken - slots * taken
    gaps = np.sort(rng.integers(0, slack + 1, size=slots))
    return [int(gap) + index * taken for index, gap in enumerate(gaps)]


def excerpt_places(reading: Reading, probe: RetrievalProbe) -> list[tuple[int, int, int, int]]:
    """Segment, first token, answer's first token and end of each excerpt.

    Places in characters are drawn on the whole text, which is the same for every model, and moved
    to the next word's start and there to the next token's. Where the tokens were cut, excerpts
    that end less than `gap` before the cut are left out; the others keep their segments, so that
    a segment is the same text for every model.
    """
    sizes = (0, probe.excerpt, probe.excerpt + probe.answer)
    if not probe.in_characters:
        starts = excerpt_starts(len(reading.ids), probe)
        return [(i, start, start + sizes[1], start + sizes[2]) for i, start in enumerate(starts)]
    places = []
    for segment, start in enumerate(excerpt_starts(len(reading.text), probe)):
        marks = [word_start(reading.text, start + size) for size in sizes]
        first, answer, end = map(reading.token_at, marks)
        if first < answer < end and marks[2] <= reading.characters - probe.gap:
            places.append((segment, first, answer, end))
    return places


def retrieval_requests(
    reading: Reading, *, kind: ConditionKind, probe: RetrievalProbe
) -> list[Request]:
    """The true continuation of each excerpt, after what the kind puts first and the excerpt.

    `context_tokens` counts what was put first, the excerpt and the answer so far.
    """
    before = _before(reading, kind, probe)
    requests = []
    for segment, start, answer, end in excerpt_places(reading, probe):
        excerpt = reading.ids[start:end]
        positions = span(answer, end)
        seen = positions - start
        if len(before):
            prefix = with_bos(before, reading.bos)
            request = Request(
                segment=segment,
                ids=excerpt,
                first_target=answer - start,
                positions=positions,
                context_tokens=seen + np.int32(len(before)),
                prefix=prefix,
                prefix_length=len(prefix),
            )
        else:
            ids = with_bos(excerpt, reading.bos)
            request = Request(
                segment=segment,
                ids=ids,
                first_target=len(ids) - len(positions),
                positions=positions,
                context_tokens=seen,
            )
        requests.append(request)
    return requests


def _before(reading: Reading, kind: ConditionKind, probe: RetrievalProbe) -> Ids:
    """The tokens that a kind puts before each excerpt."""
    if kind == WITH_DOCUMENT:
        return reading.ids
    if kind == FOREIGN:
        assert reading.foreign is not None, "extraction gives one to a kind that reads_foreign"
        return reading.foreign.ids
    if kind == SHUFFLED:
        return _shuffled(reading, probe.seed)
    if kind == TAIL:
        first = len(reading.ids) - probe.gap
        if probe.in_characters:
            first = reading.token_at(reading.characters - probe.gap)
        return reading.ids[max(0, first) :]
    return NO_TOKENS


def _shuffled(reading: Reading, seed: int) -> Ids:
    """The document's words in random order, the tokens of a word kept together."""
    count = len(reading.ids)
    starts = np.searchsorted(reading.char_start, word_starts(reading.text))
    starts = np.unique([0, *starts[starts < count]])
    # by the whole text, so that the draw does not depend on the tokenizer where nothing was cut
    order = np.random.default_rng([seed, len(reading.text)]).permutation(len(starts))
    word_of_token = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    return reading.ids[np.argsort(np.argsort(order)[word_of_token], kind="stable")]
