"""Prompts as conversations: a model's own chat template, applied as lm-evaluation-harness does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warehouse.errors import TokenmartError

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Chat:
    """How a task's prompts are put.

    Attributes:
        system: an instruction before everything else.
        multiturn: worked examples are turns of their own, not one text.
        template: text of the chat template; None for plain prompts.
        apply: messages, and whether the assistant's turn is opened behind them, to a prompt.
    """

    system: str | None = None
    multiturn: bool = True
    template: str | None = None
    apply: Callable[..., str] | None = None

    @property
    def ending(self) -> str:
        """What sets the run apart from others of the task; empty for a plain prompt."""
        if self.template is None and self.system is None:
            return ""
        parts = [self.template, self.system, self.multiturn and self.template is not None]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
        return f"-{'system' if self.template is None else 'chat'}{digest}"

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
        multiturn: worked examples are turns of their own.

    Raises:
        TokenmartError: the tokenizer has no chat template, or several and none is the default.
    """
    from jinja2.exceptions import TemplateError

    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise TokenmartError(
            f"{model}: its tokenizer has no chat template, or none that is the default; leave "
            "--apply-chat-template out, or leave the model out with --model"
        ) from error

    def apply(messages: Messages, add_generation_prompt: bool = True) -> str:
        def render(kept: Messages) -> str:
            return str(
                tokenizer.apply_chat_template(
                    kept,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    continue_final_message=not add_generation_prompt,
                )
            )

        try:
            return render(messages)
        except TemplateError:
            # as in the harness: some templates refuse a system's turn
            return render([each for each in messages if each["role"] != "system"])

    return Chat(system, multiturn, str(template), apply)
