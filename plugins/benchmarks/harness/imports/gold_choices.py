"""Find the right choices of logged samples, and check them with the metrics in the file.

A sample's `target` is the harness's `doc_to_target` as text: the number of a choice, its text, or
a list of these. The file doesn't record which of them it is, so each interpretation is compared
with the logged `acc` of the samples. Tasks whose choices differ in the prompt only
(`multiple_input`, such as Winogrande) log the common continuation as their target; their right
choice follows from `acc` alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warehouse.errors import TokenmartError

_PAIRS = ("f1", "mcc", "brier_score", "likelihood")
"""Metrics that the harness logs as a pair: the right choice, and the aggregated value."""


@dataclass(frozen=True)
class ChoiceSample:
    """One multiple-choice document.

    Attributes:
        place: file and line, for messages.
        target: as logged.
        continuations: the choices, delimiters included.
        scores: log-likelihood of each, in nats.
        metrics: as logged.
    """

    place: str
    target: Any
    continuations: Sequence[str]
    scores: Sequence[float]
    metrics: dict[str, Any]

    @property
    def predicted(self) -> int:
        """The choice with the highest log-likelihood; of several, the first, as in the harness."""
        return int(np.argmax(self.scores))

    @property
    def one_continuation(self) -> bool:
        """Whether choices differ in the prompt only."""
        return len(self.continuations) > 1 and len(set(self.continuations)) == 1


GoldRule = Callable[[ChoiceSample], "list[int] | None"]


@dataclass(frozen=True)
class GoldChoices:
    """Right choices and delimiter of a file's samples.

    Attributes:
        golds: right choices of each sample, in order; empty if the target is not a choice, which
            the harness counts as wrong.
        delimiter: number of characters at the beginning of a continuation that don't belong to the
            choice; None for all white space there.
    """

    golds: list[list[int]]
    delimiter: int | None


def gold_choices(samples: Sequence[ChoiceSample], task: str) -> GoldChoices:
    """The right choices of a file's samples.

    Args:
        samples: of one task.
        task: its name, for messages.

    Raises:
        TokenmartError: the file doesn't identify the right choice, or its log-likelihoods
            contradict its own metrics; the message names the line.
    """
    remedy = (
        f"take its metrics as they are (--format lm-eval), or run `tokenmart eval --tasks {task}`"
    )
    found: list[list[list[int]]] = []
    first: TokenmartError | None = None
    for rule in (_logged, _text_first, _number_first, _by_accuracy):
        golds = [rule(sample) for sample in samples]
        known = [gold for gold in golds if gold is not None]
        if len(known) < len(samples) or not any(known):
            continue
        wrong = _contradiction(samples, known)
        if wrong is None:
            found.append(known)
            if rule is _logged:
                break  # the harness's own number
        elif first is None:
            first = TokenmartError(f"{wrong}; {remedy}")
    if not found:
        place = samples[0].place
        raise first or TokenmartError(
            f"{place}: its target {_shown(samples[0].target)} doesn't identify the right choice; "
            f"{remedy}"
        )
    for other in found[1:]:
        for sample, one, two in zip(samples, found[0], other, strict=True):
            if one != two:
                raise TokenmartError(
                    f"{sample.place}: its target {_shown(sample.target)} is the text of choice "
                    f"{_listed(one)} and the number of choice {_listed(two)} (from 0), and the "
                    f"metrics of the file fit both; {remedy}"
                )
    return GoldChoices(found[0], _delimiter(samples, found[0], remedy))


def _logged(sample: ChoiceSample) -> list[int] | None:
    """The right choices that some metrics are logged with."""
    for name in _PAIRS:
        value = sample.metrics.get(name)
        if isinstance(value, list) and len(value) == 2:
            gold = value[0] if isinstance(value[0], list) else [value[0]]
            if all(type(each) is int for each in gold):
                return _in_range(gold, sample)
    return None


def _text_first(sample: ChoiceSample) -> list[int] | None:
    return _read(sample, texts_first=True)


def _number_first(sample: ChoiceSample) -> list[int] | None:
    return _read(sample, texts_first=False)


def _read(sample: ChoiceSample, texts_first: bool) -> list[int] | None:
    if sample.one_continuation:
        return None
    found: list[int] = []
    texts = [text.strip() for text in sample.continuations]
    whole = str(sample.target).strip()
    # a choice's text may look like a list
    parts = [whole] if texts_first and whole in texts else _parts(sample.target)
    for each in parts:
        text = str(each).strip()
        number = _number(each)
        if isinstance(each, str) and text in texts and (texts_first or number is None):
            if texts.count(text) > 1:
                return None
            found.append(texts.index(text))
        elif number is not None:
            found += _in_range([number], sample)
    return found


def _by_accuracy(sample: ChoiceSample) -> list[int] | None:
    """The right choice according to `acc`, if choices differ in the prompt only."""
    accuracy = sample.metrics.get("acc")
    if not sample.one_continuation or accuracy not in (0, 1):
        return None
    if accuracy == 1:
        return [sample.predicted]
    return [1 - sample.predicted] if len(sample.continuations) == 2 else None


def _parts(target: Any) -> list[Any]:
    """The elements of a target; a list is logged as Python text."""
    if isinstance(target, str) and target.strip().startswith("["):
        try:
            target = ast.literal_eval(target.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [target]
    return list(target) if isinstance(target, list | tuple) else [target]


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    text = str(value).strip()
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 10 else None


def _in_range(gold: Sequence[int], sample: ChoiceSample) -> list[int]:
    return [each for each in gold if 0 <= each < len(sample.continuations)]


def _contradiction(samples: Sequence[ChoiceSample], golds: Sequence[list[int]]) -> str | None:
    """The first sample whose logged accuracy differs from that of its log-likelihoods."""
    for sample, gold in zip(samples, golds, strict=True):
        ours, theirs = float(sample.predicted in gold), sample.metrics.get("acc")
        if theirs is not None and theirs != ours:
            right = f"choice {_listed(gold)}" if gold else "no choice"
            return (
                f"{sample.place}: acc is {_shown(theirs)}, but choice {sample.predicted} (from 0) "
                f"is the likeliest and by the target {_shown(sample.target)} {right} is right"
            )
    return None


def _delimiter(
    samples: Sequence[ChoiceSample], golds: Sequence[list[int]], remedy: str
) -> int | None:
    """Number of characters of a continuation's delimiter, according to the logged `acc_norm`."""
    shared = min(
        len(text) - len(text.lstrip()) for sample in samples for text in sample.continuations
    )
    ways: list[int | None] = [None, *range(shared + 1)]
    wrong = [next(_wrong_norms(samples, golds, way), None) for way in ways]
    if None not in wrong:
        assert wrong[0] is not None
        raise TokenmartError(
            f"{wrong[0].place}: acc_norm is {_shown(wrong[0].metrics['acc_norm'])}, which its "
            f"log-likelihoods and the lengths of its choices don't give; {remedy}"
        )
    return ways[wrong.index(None)]


def _wrong_norms(
    samples: Sequence[ChoiceSample], golds: Sequence[list[int]], delimiter: int | None
) -> Iterator[ChoiceSample]:
    for sample, gold in zip(samples, golds, strict=True):
        lengths = [len(choice_text(text, delimiter)) for text in sample.continuations]
        theirs = sample.metrics.get("acc_norm")
        if theirs is None or not all(lengths):
            continue
        predicted = int(np.argmax(np.asarray(sample.scores) / np.asarray(lengths, float)))
        if theirs != float(predicted in gold):
            yield sample


def choice_text(continuation: str, delimiter: int | None) -> str:
    """A choice without its delimiter: see `GoldChoices`."""
    if delimiter is not None:
        return continuation[delimiter:]
    return continuation.lstrip() or continuation


def _listed(gold: Sequence[int]) -> str:
    return " and ".join(map(str, gold)) or "none"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:59] + "…"
