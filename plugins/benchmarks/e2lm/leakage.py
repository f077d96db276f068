"""Find prompts that contain their answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_AROUND = ".,;:!?\"'。、，；：！？「」『』"
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9d\U00020000-\U0003ffff]"
)
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""


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

    `tin` is not found in `continue`; spaces and punctuation around the answer don't count. Scripts
    that put no spaces between words have no whole words: there any place counts. Letters with
    accents are equal to those with combining ones.
    """
    prompt, answer = (unicodedata.normalize("NFC", text) for text in (prompt, answer))
    words = answer.strip().strip(_AROUND).split()
    if not words:
        return False
    pattern = r"\s+".join(re.escape(word) for word in words)
    before = "" if _UNSPACED.match(words[0][0]) else r"(?<!\w)"
    after = "" if _UNSPACED.match(words[-1][-1]) else r"(?!\w)"
    return re.search(before + pattern + after, prompt, re.IGNORECASE) is not None


def leaking(items: Sequence[PromptedItem]) -> list[int]:
    """Indices of the items whose prompt contains a right answer.

    A prompt that lists all choices doesn't count.
    """
    return [
        index
        for index, item in enumerate(items)
        if item.prompt is not None
        and any(stands_in(answer, item.prompt) for answer in item.answers)
        and not (item.choices and all(stands_in(each, item.prompt) for each in item.choices))
    ]
