"""Prompts as conversations: a model's own chat template, applied as lm-evaluation-harness does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.terminal import counted

Messages = list[dict[str, str]]


@dataclass
class Chat:
    """A tokenizer's chat template; few-shot examples are messages of their own.

    Attributes:
        tokenizer: of transformers.
        template: its text.
        without_system: number of prompts without a system message because the template refuses one.
    """

    tokenizer: Any
    template: str
    without_system: int = 0

    def __call__(self, messages: Messages, add_generation_prompt: bool = True) -> str:
        """Messages as one prompt, with or without the beginning of the assistant's turn."""
        from jinja2.exceptions import TemplateError

        try:
            return self._rendered(messages, add_generation_prompt)
        except TemplateError:
            # as in the harness: some templates refuse a system message
            kept = [each for each in messages if each["role"] != "system"]
            prompt = self._rendered(kept, add_generation_prompt)
            self.without_system += 1
            return prompt

    def _rendered(self, messages: Messages, add_generation_prompt: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    @property
    def notes(self) -> list[str]:
        """What the template left out of prompts, or wrote into them."""
        texts = []
        if self.without_system:
            count = counted(self.without_system, "prompt")
            texts.append(f"its chat template refuses a system turn, which {count} therefore lack")
        if "strftime_now" in self.template:
            texts.append(
                "its chat template writes today's date, so prompts of another day are another "
                "condition"
            )
        return texts


def chat_of(model: str, tokenizer: Any) -> Chat:
    """A model's chat template.

    Args:
        model: full id, for messages.
        tokenizer: of transformers.

    Raises:
        TokenmartError: the tokenizer has no chat template, or several and none is the default.
    """
    try:
        return Chat(tokenizer, str(tokenizer.get_chat_template()))
    except ValueError as error:
        raise TokenmartError(
            f"{model}: its tokenizer has no chat template, or none that is the default; leave "
            "--apply-chat-template out, or leave the model out with --model"
        ) from error
