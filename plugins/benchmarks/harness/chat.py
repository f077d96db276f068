"""Prompts as conversations: a model's own chat template, applied as lm-evaluation-harness does."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.terminal import counted

Messages = list[dict[str, str]]


@dataclass
class ChatTemplate:
    """A tokenizer's chat template.

    Attributes:
        tokenizer: of transformers.
        without_system: number of prompts without a system message because the template refuses one.
    """

    tokenizer: Any
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


@dataclass(frozen=True)
class Chat:
    """Format of a task's prompts.

    Attributes:
        system: an instruction before everything else.
        multiturn: few-shot examples are messages of their own, not one text.
        template: text of the chat template; None for plain prompts.
        apply: function that applies the template to messages.
    """

    system: str | None = None
    multiturn: bool = True
    template: str | None = None
    apply: ChatTemplate | None = None

    @property
    def ending(self) -> str:
        """Part of the condition's name for the prompt format; empty for a plain prompt."""
        if self.template is None and self.system is None:
            return ""
        parts = [self.template, self.system, self.multiturn and self.template is not None]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
        return f"-{'system' if self.template is None else 'chat'}{digest}"

    @property
    def note(self) -> str:
        """Note on what the template left out of prompts; empty if nothing."""
        if self.apply is None or not self.apply.without_system:
            return ""
        count = counted(self.apply.without_system, "prompt")
        return f"its chat template refuses a system turn, which {count} therefore lack"

    @property
    def building(self) -> dict[str, Any]:
        """Arguments for the harness's `build_all_requests`."""
        return {
            "system_instruction": self.system,
            "apply_chat_template": self.template is not None,
            "fewshot_as_multiturn": self.multiturn and self.template is not None,
            "chat_template": self.apply,
        }


def chat_of(model: str, tokenizer: Any, system: str | None = None, multiturn: bool = True) -> Chat:
    """A model's chat template.

    Args:
        model: full id, for messages.
        tokenizer: of transformers.
        system: an instruction before everything else.
        multiturn: few-shot examples are messages of their own.

    Raises:
        TokenmartError: the tokenizer has no chat template, or several and none is the default.
    """
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise TokenmartError(
            f"{model}: its tokenizer has no chat template, or none that is the default; leave "
            "--apply-chat-template out, or leave the model out with --model"
        ) from error

    return Chat(system, multiturn, str(template), ChatTemplate(tokenizer))
