"""A request of a benchmark and an imported answer, checked field by field."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from warehouse.file_model import FileModel

UNKNOWN_SHOTS = -1
ROUNDING = 1e-3
"""Largest accepted log-probability above 0; sums in half precision can exceed 0."""


class TokenLogprob(FileModel):
    """One scored token, in nats; values that the other program did not record are NaN."""

    token_id: int = Field(ge=0)
    logprob: float = Field(le=0, allow_inf_nan=False)
    rank: int = Field(ge=1)
    top_logprob: float = float("nan")
    entropy: float = float("nan")


class EvalAnswer(FileModel):
    """A request of a benchmark and a model's answer.

    Attributes:
        task: its name.
        item: number of the task's document, from 0.
        choice: number of the choice, from 0.
        context: the prompt.
        continuation: the scored text after the prompt; empty for a generation.
        reference: the choice without its delimiter; by default the continuation without leading
            spaces.
        is_gold: whether the choice is right, None if unknown.
        gold: right answers of a generation.
        request_type: as in lm-evaluation-harness.
        unconditional: whether the choice was scored without its prompt.
        subject: subject of the item.
        shots: number of few-shot examples in the prompt, -1 if unknown.
        chat: identifies the prompt format of a conversation; empty for plain prompts.
        words, bytes: of the reference, if the task counts them in its own way.
        loglikelihood: of the continuation, in nats, -inf for an impossible one; not together with
            `tokens`.
        is_greedy: whether each token was the top-1 token.
        tokens: of the continuation, in order.
        context_tokens: number of tokens in the model's input before the first of them.
        tokens_cut: number of tokens of the prompt that were cut.
        answers: generated text by filter.
        options: see `eval_items`.
        backend: name of the program that ran the model.
    """

    task: str = Field(min_length=1)
    item: int = Field(ge=0, le=2**31 - 1)
    choice: int = Field(default=0, ge=0)
    context: str = ""
    continuation: str = ""
    reference: str | None = None
    is_gold: bool | None = None
    gold: tuple[str, ...] | None = None
    request_type: str = Field(
        default="multiple_choice",
        pattern="^(multiple_choice|loglikelihood|loglikelihood_rolling|generate_until)$",
    )
    unconditional: bool = False
    subject: str | None = None
    shots: int = Field(default=UNKNOWN_SHOTS, ge=UNKNOWN_SHOTS)
    chat: str = Field(default="", pattern="^[A-Za-z0-9]*$")
    words: int | None = Field(default=None, ge=0, le=2**31 - 1)
    bytes: int | None = Field(default=None, ge=0, le=2**31 - 1)
    loglikelihood: float | None = Field(default=None, le=0, allow_inf_nan=True)
    is_greedy: bool | None = None
    tokens: tuple[TokenLogprob, ...] = ()
    context_tokens: int = Field(default=0, ge=0)
    tokens_cut: int = Field(default=0, ge=0)
    answers: dict[str, str | None] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    backend: str = Field(min_length=1)

    @model_validator(mode="after")
    def _says_one_thing(self) -> EvalAnswer:
        given = [self.loglikelihood is not None, bool(self.tokens), bool(self.answers)]
        if sum(given) != 1:
            raise ValueError("one of loglikelihood, tokens and answers must be given")
        if self.tokens_cut and not self.tokens:
            raise ValueError("tokens_cut goes with tokens")
        return self

    @property
    def run(self) -> str:
        """Settings of the prompt, as part of a folder name."""
        return run_name(self.shots, self.chat)


def run_name(shots: int | None, chat: str) -> str:
    """Settings of a task's prompts, as part of a folder name.

    Args:
        shots: number of few-shot examples in a prompt; None or -1 if unknown.
        chat: as in `EvalAnswer`.
    """
    known = [] if shots in (None, UNKNOWN_SHOTS) else [f"{shots}shot"]
    return "-".join([*known, *([f"chat{chat}"] if chat else [])])
