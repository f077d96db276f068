"""Items as a model meets them: which prompts give their answer away, and which items are judged.

The judge of scientific alignment gets 50 random items, as questions with their answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

JUDGED = 50
"""Items that the organisers show to their judge."""

_SEED = 0
_QUESTION = re.compile(r"^\s*question\s*:\s*", re.IGNORECASE)
_ANSWER = re.compile(r"\s*answer\s*:\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class PromptedItem:
    """An item as a model meets it.

    prompt: None where the task puts no text before what is scored.
    answers: every text that counts as right. choices: all of a multiple choice, else empty.
    """

    prompt: str | None
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()


def stands_in(answer: str, prompt: str) -> bool:
    """Whether a prompt contains an answer as whole words, in any case.

    `tin` is not found in `continue`; spaces and punctuation around the answer don't count.
    """
    words = answer.strip().strip(".,;:!?\"'").split()
    if not words:
        return False
    pattern = r"\s+".join(re.escape(word) for word in words)
    return re.search(rf"(?<!\w){pattern}(?!\w)", prompt, re.IGNORECASE) is not None


def leaking(items: Sequence[PromptedItem]) -> list[int]:
    """Indices of the items whose prompt contains a right answer.

    A prompt that lists all choices gives none of them away.
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


def judged_items(items: Sequence[PromptedItem]) -> str:
    """`Question: … Answer: …` of 50 random items (all, if there are fewer), a blank line between.

    Always the same ones of the same items. An item without a prompt is shown by its answer alone.
    """
    drawn = random.Random(_SEED).sample(list(items), min(JUDGED, len(items)))
    return "\n\n".join(_shown(item) for item in drawn) + "\n"


def _shown(item: PromptedItem) -> str:
    prompt = _ANSWER.sub("", _QUESTION.sub("", item.prompt or "")).strip()
    answer = item.answers[0].strip() if item.answers else ""
    return f"Question: {prompt} Answer: {answer}" if prompt else answer
