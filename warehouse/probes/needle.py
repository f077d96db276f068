"""Retrieval of a sentence at any depth: needles made from the document itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from warehouse.probes.probe import PROBE_NAME, Probe
from warehouse.probes.request import Condition, ConditionKind, Ids, Reading, Request, span, with_bos
from warehouse.probes.words import sentences, word_start

PRESENT = ConditionKind("needle_present", shares_prefix=True, repeats_positions=True)
ABSENT = ConditionKind("needle_absent", shares_prefix=True)


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

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (PRESENT, ABSENT)

    kind: Literal["needle"]
    name: str = Field(default="needle", pattern=PROBE_NAME)
    depths: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    rounds: int = Field(default=1, ge=1)
    min_characters: int = Field(default=80, ge=2)
    max_characters: int = Field(default=400, ge=2)
    cue: float = Field(default=0.5, gt=0, lt=1)
    seed: int = 0

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
            self.condition(kind, partial(build, probe=self), suffix=suffix, seed=self.seed)
            for kind, build, suffix in (
                (PRESENT, present_requests, "_present"),
                (ABSENT, absent_requests, "_absent"),
            )
        ]


@dataclass(frozen=True)
class Needle:
    """Tokens of a sentence in its document: its start, where the answer begins, its end."""

    start: int
    answer: int
    end: int


def needles(reading: Reading, probe: NeedleProbe) -> list[Needle]:
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
            return sorted(drawn, key=lambda each: each.start)
    return []


def present_requests(reading: Reading, *, probe: NeedleProbe) -> list[Request]:
    """Each round's questions behind the document with the sentences at their depths."""
    found = needles(reading, probe)
    rest = _rest(reading, found)
    ends = _sentence_ends(reading, rest)
    requests = []
    for turn in range(probe.rounds if found else 0):
        at_depth = [found[(place - turn) % len(found)] for place in range(len(probe.depths))]
        pieces, before = [], 0
        for depth, needle in zip(probe.depths, at_depth, strict=True):
            # the end of a sentence nearest to the depth
            place = int(ends[np.abs(ends - depth * len(rest)).argmin()])
            pieces += [rest[before:place], span(needle.start, needle.end)]
            before = place
        order = np.concatenate([*pieces, rest[before:]])
        requests += [
            _question(reading, order, needle, place * len(found) + found.index(needle))
            for place, needle in enumerate(at_depth)
        ]
    return requests


def absent_requests(reading: Reading, *, probe: NeedleProbe) -> list[Request]:
    """The questions behind the document without the sentences."""
    found = needles(reading, probe)
    rest = _rest(reading, found)
    return [_question(reading, rest, needle, number) for number, needle in enumerate(found)]


def _rest(reading: Reading, found: list[Needle]) -> Ids:
    """Positions of the tokens that are not in a needle."""
    taken = [span(needle.start, needle.end) for needle in found]
    kept = np.ones(len(reading.ids), dtype=bool)
    kept[np.concatenate([*taken, span(0, 0)])] = False
    return np.flatnonzero(kept).astype(np.int32)


def _sentence_ends(reading: Reading, rest: Ids) -> Ids:
    """How many tokens of the rest come before each sentence's start, and before the end."""
    starts = [reading.token_at(start) for start, _ in sentences(reading.text)]
    return np.unique([*np.searchsorted(rest, starts), len(rest)]).astype(np.int32)


def _question(reading: Reading, order: Ids, needle: Needle, segment: int) -> Request:
    prefix = with_bos(reading.ids[order], reading.bos)
    positions = span(needle.answer, needle.end)
    return Request(
        segment=segment,
        ids=reading.ids[needle.start : needle.end],
        first_target=needle.answer - needle.start,
        positions=positions,
        context_tokens=positions - needle.start + np.int32(len(order)),
        prefix=prefix,
        prefix_length=len(prefix),
    )
