"""The right choices of logged samples.

A sample's `target` is the harness's `doc_to_target` as text: the index of a choice, its text, or a
list of these. A target that is neither, or that could be two different choices, is refused: tasks
whose choices differ in the prompt only (`multiple_input`, such as Winogrande) log no target.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from plugins.benchmarks.refusal import refused


def gold_choices(place: str, target: Any, choices: Sequence[str], task: str) -> list[int]:
    """Indices of the right choices of one item.

    Args:
        place: file and line, for messages.
        target: as logged.
        choices: texts of the choices.
        task: its name, for messages.

    Raises:
        TokenmartError: the target doesn't identify choices.
    """
    texts = [choice.strip() for choice in choices]
    found: list[int] = []
    for part in _parts(target, texts):
        text = str(part).strip()
        meant = {at for at, each in enumerate(texts) if each == text}
        if text.isascii() and text.isdecimal() and int(text) < len(texts):
            meant.add(int(text))
        if len(meant) != 1:
            raise refused(
                place,
                f"its target {target!r:.60} is {len(meant) or 'none'} of the {len(texts)} choices; "
                f"run the task here: tokenmart eval --tasks {task}",
                "unknown-gold",
            )
        found += meant
    return found


def refuse_other_accuracy(
    place: str, scores: Sequence[float], golds: Sequence[int], metrics: Mapping[str, Any], task: str
) -> None:
    """Stop if the logged `acc` is not that of the log-likelihoods and right choices.

    Raises:
        TokenmartError: it differs.
    """
    likeliest = max(range(len(scores)), key=scores.__getitem__)  # the first of several, as argmax
    theirs = metrics.get("acc")
    if theirs is not None and theirs != float(likeliest in golds):
        raise refused(
            place,
            f"acc is {theirs!r}, but choice {likeliest} (from 0) is the likeliest and {golds} is "
            f"right by the target; run the task here: tokenmart eval --tasks {task}",
            "other-accuracy",
        )


def _parts(target: Any, texts: Sequence[str]) -> list[Any]:
    """The elements of a target; a list is logged as Python text."""
    if isinstance(target, str) and target.strip() not in texts and target.strip().startswith("["):
        try:
            target = ast.literal_eval(target.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [target]
    return list(target) if isinstance(target, list | tuple) else [target]
