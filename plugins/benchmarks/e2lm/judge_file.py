"""Items for the judge of scientific alignment: 50 random ones, as questions with their answer."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from plugins.benchmarks.e2lm.leakage import PromptedItem

COUNT = 50
"""Items that the organisers show to their judge."""

_SEED = 0
_QUESTION = re.compile(r"^\s*question\s*:\s*", re.IGNORECASE)
_ANSWER = re.compile(r"\s*answer\s*:\s*$", re.IGNORECASE)


def judged_items(items: Sequence[PromptedItem]) -> str:
    """`Question: … Answer: …` of 50 random items (all, if there are fewer), a blank line between.

    Always the same ones of the same items. An item without a prompt is shown by its answer alone.
    """
    drawn = random.Random(_SEED).sample(list(items), min(COUNT, len(items)))
    return "\n\n".join(_shown(item) for item in drawn) + "\n"


def _shown(item: PromptedItem) -> str:
    prompt = _ANSWER.sub("", _QUESTION.sub("", item.prompt or "")).strip()
    answer = item.answers[0].strip() if item.answers else ""
    return f"Question: {prompt} Answer: {answer}" if prompt else answer
