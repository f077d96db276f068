"""Write 50 random items as questions with answers, for the judge of scientific alignment."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from plugins.benchmarks.e2lm.leakage import PromptedItem

COUNT = 50
"""Number of items that the organisers' judge reads."""

_SEED = 0
_QUESTION = re.compile(r"^\s*question\s*:\s*", re.IGNORECASE)
_ANSWER = re.compile(r"\s*answer\s*:\s*$", re.IGNORECASE)


def judged_items(items: Sequence[PromptedItem]) -> str:
    """`Question: … Answer: …` for 50 random items (all, if there are fewer), separated by blank
    lines.

    The selection depends on the items only. An item without a prompt has only its answer.
    """
    drawn = random.Random(_SEED).sample(list(items), min(COUNT, len(items)))
    return "\n\n".join(_shown(item) for item in drawn) + "\n"


def _shown(item: PromptedItem) -> str:
    prompt = _ANSWER.sub("", _QUESTION.sub("", item.prompt or "")).strip()
    answer = item.answers[0].strip() if item.answers else ""
    return f"Question: {prompt} Answer: {answer}" if prompt else answer
