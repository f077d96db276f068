"""Find prompts that contain their answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PromptedItem:
    """Prompt and answers of an item.

    prompt: None if the task has no text before the scored text.
    answers: all right answers. choices: all choices of a multiple-choice item, otherwise empty.
    """

    prompt: str | None
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()


def stands_in(answer: str, prompt: str) -> bool:
    """Whether a prompt contains an answer as complete words, ignoring case.

    `tin` is not found in `continue`; spaces and punctuation around the answer don't count.
    """
    words = answer.strip().strip(".,;:!?\"'").split()
    if not words:
        return False
    pattern = r"\s+".join(re.escape(word) for word in words)
    return re.search(rf"(?<!\w){pattern}(?!\w)", prompt, re.IGNORECASE) is not None


def leaking(items: Sequence[PromptedItem]) -> list[int]:
    """Indices of the items whose prompt contains a right answer.

    A prompt that lists all choices doesn't count.
    """
    found = []
    for index, item in enumerate(items):
        prompt = item.prompt
        if prompt is None or not any(stands_in(answer, prompt) for answer in item.answers):
            continue
        if item.choices and all(stands_in(choice, prompt) for choice in item.choices):
            continue
        found.append(index)
    return found
