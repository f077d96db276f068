"""Probes that ask for a passage of the document behind it: retrieval of excerpts, needles.

Controls of retrieval measure other effects of a prefix: another document (topic, distraction), the
same words in another order, the document's end only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from warehouse.probes.probe import NO_PARAMETERS, PROBE_NAME, Probe
from warehouse.probes.request import (
    NO_TOKENS,
    Condition,
    ConditionKind,
    DocumentTokens,
    Ids,
    Request,
    scores_end,
    span,
    with_bos,
)

WITH_DOCUMENT = ConditionKind("retrieval_with_document", reads_document=True, shares_prefix=True)
WITHOUT_DOCUMENT = ConditionKind("retrieval_without_document")
FOREIGN = ConditionKind("retrieval_foreign", shares_prefix=True, reads_foreign=True)
SHUFFLED = ConditionKind("retrieval_shuffled", shares_prefix=True)
TAIL = ConditionKind("retrieval_tail", shares_prefix=True)
NEEDLE_PRESENT = ConditionKind("needle_present", shares_prefix=True, repeats_positions=True)
NEEDLE_ABSENT = ConditionKind("needle_absent", shares_prefix=True)

_TOKENS = ("excerpt_tokens", "answer_tokens", "min_gap")
_CHARACTERS = ("excerpt_characters", "answer_characters", "min_gap_characters")

_WORD = re.compile(r" (?=\S)|(?<=[^\S ])(?=\S)")
"""A word begins with the one space before it, which most tokenizers keep in its first token."""
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*(?=\s+\S)|(?=\s*\n\s*\n)")
LONGEST_WORD = 64
"""If no word begins within this number of characters (scripts without spaces), any position is
used.
"""


def word_start(text: str, character: int) -> int:
    """The first word's start at this character or soon after it.

    Args:
        character: 0-based, at most the length of the text.
    """
    if character == 0:
        return 0
    word = _WORD.search(text, character, character + LONGEST_WORD)
    return word.start() if word else character


def word_starts(text: str) -> list[int]:
    """Start positions of words, the text's first character included."""
    return [0, *(found.start() for found in _WORD.finditer(text) if found.start() > 0)]


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, in characters; together they cover the text.

    A sentence begins with the word start after the mark that ended the one before, a paragraph
    ends one, too. Abbreviations cut a sentence in two.
    """
    ends = [word_start(text, found.end()) for found in _SENTENCE.finditer(text)]
    marks = sorted({0, *ends, len(text)})
    return list(pairwise(marks))


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
        WITH_DOCUMENT, WITHOUT_DOCUMENT, FOREIGN, SHUFFLED, TAIL,
    )  # fmt: skip

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
    seed: int = Field(default=0, ge=0, lt=2**63)
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
            self.condition(kind, suffix=suffix, seed=self.seed) for suffix, kind in kinds.items()
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One for each excerpt: see `retrieval_requests`."""
        return retrieval_requests(document, kind=condition.kind, probe=self)


def excerpt_starts(length: int, probe: RetrievalProbe) -> list[int]:
    """Starts of non-overlapping excerpts in the early and middle part of a document.

    An excerpt and its answer end at least `gap` before the document's end and start within its
    first `region` share. Fewer come back when the document is too short.

    Args:
        length: of the document, in the probe's unit.
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


def excerpt_places(
    reading: DocumentTokens, probe: RetrievalProbe
) -> list[tuple[int, int, int, int]]:
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
    reading: DocumentTokens, *, kind: ConditionKind, probe: RetrievalProbe
) -> list[Request]:
    """The true continuation of each excerpt, after what the kind puts first and the excerpt.

    `context_tokens` counts what was put first, the excerpt and the answer so far.
    """
    before = _before(reading, kind, probe)
    prefix = with_bos(before, reading.bos) if len(before) else NO_TOKENS
    requests = []
    for segment, start, answer, end in excerpt_places(reading, probe):
        excerpt = reading.ids[start:end]
        ids = excerpt if len(before) else with_bos(excerpt, reading.bos)
        positions = span(answer, end)
        context = positions - start + np.int32(len(before))
        requests.append(scores_end(segment, ids, positions, context, prefix))
    return requests


def _before(reading: DocumentTokens, kind: ConditionKind, probe: RetrievalProbe) -> Ids:
    """The tokens that a kind puts before each excerpt."""
    if kind == WITH_DOCUMENT:
        return reading.ids
    if kind == FOREIGN:
        return reading.foreign_ids
    if kind == SHUFFLED:
        return _shuffled(reading, probe.seed)
    if kind == TAIL:
        first = len(reading.ids) - probe.gap
        if probe.in_characters:
            first = reading.token_at(reading.characters - probe.gap)
        return reading.ids[max(0, first) :]
    return NO_TOKENS


def _shuffled(reading: DocumentTokens, seed: int) -> Ids:
    """The document's words in random order, the tokens of a word kept together."""
    count = len(reading.ids)
    starts = np.searchsorted(reading.char_start, word_starts(reading.text))
    starts = np.unique([0, *starts[starts < count]])
    # by the whole text, so that the draw does not depend on the tokenizer where nothing was cut
    order = np.random.default_rng([seed, len(reading.text)]).permutation(len(starts))
    word_of_token = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    return reading.ids[np.argsort(np.argsort(order)[word_of_token], kind="stable")]


class NeedleProbe(Probe):
    """Sentences of the document, moved to given depths and repeated as questions at its end.

    As many sentences as `depths` are removed from the document. In the first of `rounds` each is
    inserted at one depth, in the next round at the next depth, and so on. After the rearranged
    document the beginning of a sentence is repeated (its `cue` share) and the rest is scored; in
    `…_absent` after the document without the sentences. A round costs one document, and `…_absent`
    another.

    A row's segment is depth · sentences + sentence, both counted from 0; in `…_absent` it is the
    sentence.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (NEEDLE_PRESENT, NEEDLE_ABSENT)

    kind: Literal["needle"]
    name: str = Field(default="needle", pattern=PROBE_NAME)
    depths: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    rounds: int = Field(default=1, ge=1)
    min_characters: int = Field(default=80, ge=2)
    max_characters: int = Field(default=400, ge=2)
    cue: float = Field(default=0.5, gt=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("depths")
    @classmethod
    def _inside(cls, depths: tuple[float, ...]) -> tuple[float, ...]:
        if not depths or list(depths) != sorted(set(depths)) or depths[0] < 0 or depths[-1] > 1:
            raise ValueError("depths must increase, between 0 (the document's start) and 1")
        return depths

    @model_validator(mode="after")
    def _rounds_differ(self) -> NeedleProbe:
        if self.rounds > len(self.depths):
            raise ValueError(f"rounds must be at most the number of depths, {len(self.depths)}")
        if self.min_characters > self.max_characters:
            raise ValueError("min_characters is more than max_characters")
        return self

    def conditions(self) -> list[Condition]:
        """Two conditions, `…_present` and `…_absent`."""
        return [
            self.condition(NEEDLE_PRESENT, suffix="_present", seed=self.seed),
            self.condition(NEEDLE_ABSENT, suffix="_absent", seed=self.seed),
        ]

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """One for each question: see `present_requests` and `absent_requests`."""
        if condition.kind == NEEDLE_PRESENT:
            return present_requests(document, probe=self)
        return absent_requests(document, probe=self)


@dataclass(frozen=True)
class Needle:
    """Tokens of a sentence in its document: its start, where the answer begins, its end."""

    start: int
    answer: int
    end: int


def needles(reading: DocumentTokens, probe: NeedleProbe) -> list[Needle]:
    """As many sentences as there are depths, in the order of the document.

    They are drawn on the whole text, which is the same for every model, from the sentences of
    `min_characters` to `max_characters` on one line that occur once; of a document that was cut
    the first ones drawn that were read. Too few: none at all.
    """
    text = reading.text
    able = [
        (start, end)
        for start, end in sentences(text)
        if probe.min_characters <= len(text[start:end].strip()) <= probe.max_characters
        and "\n" not in text[start:end].strip()
        and text.count(text[start:end].strip()) == 1
    ]
    drawn: list[Needle] = []
    for index in np.random.default_rng([probe.seed, len(text)]).permutation(len(able)):
        start, end = able[index]
        answer = word_start(text, start + int(probe.cue * (end - start)))
        first, middle, last = map(reading.token_at, (start, answer, end))
        if first < middle < last and end <= reading.characters:
            drawn.append(Needle(first, middle, last))
        if len(drawn) == len(probe.depths):
            return sorted(drawn, key=lambda needle: needle.start)
    return []


def present_requests(reading: DocumentTokens, *, probe: NeedleProbe) -> list[Request]:
    """Each round's questions behind the document with the sentences at their depths."""
    chosen = needles(reading, probe)
    rest = _rest(reading, chosen)
    ends = _sentence_ends(reading, rest)
    requests = []
    for turn in range(probe.rounds if chosen else 0):
        at_depth = [chosen[(place - turn) % len(chosen)] for place in range(len(probe.depths))]
        pieces, before = [], 0
        for depth, needle in zip(probe.depths, at_depth, strict=True):
            # the end of a sentence nearest to the depth
            place = int(ends[np.abs(ends - depth * len(rest)).argmin()])
            pieces += [rest[before:place], span(needle.start, needle.end)]
            before = place
        order = np.concatenate([*pieces, rest[before:]])
        requests += [
            _question(reading, order, needle, place * len(chosen) + chosen.index(needle))
            for place, needle in enumerate(at_depth)
        ]
    return requests


def absent_requests(reading: DocumentTokens, *, probe: NeedleProbe) -> list[Request]:
    """The questions behind the document without the sentences."""
    chosen = needles(reading, probe)
    rest = _rest(reading, chosen)
    return [_question(reading, rest, needle, number) for number, needle in enumerate(chosen)]


def _rest(reading: DocumentTokens, chosen: list[Needle]) -> Ids:
    """Positions of the tokens that are not in a needle."""
    taken = [span(needle.start, needle.end) for needle in chosen]
    kept = np.ones(len(reading.ids), dtype=bool)
    kept[np.concatenate([*taken, span(0, 0)])] = False
    return np.flatnonzero(kept).astype(np.int32)


def _sentence_ends(reading: DocumentTokens, rest: Ids) -> Ids:
    """How many tokens of the rest come before each sentence's start, and before the end."""
    starts = [reading.token_at(start) for start, _ in sentences(reading.text)]
    return np.unique([*np.searchsorted(rest, starts), len(rest)]).astype(np.int32)


def _question(reading: DocumentTokens, order: Ids, needle: Needle, segment: int) -> Request:
    ids = reading.ids[needle.start : needle.end]
    positions = span(needle.answer, needle.end)
    context = positions - needle.start + np.int32(len(order))
    return scores_end(segment, ids, positions, context, with_bos(reading.ids[order], reading.bos))
