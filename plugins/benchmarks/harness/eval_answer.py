"""A request of a benchmark with what a model answered elsewhere, checked field by field."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from warehouse.frozen import Frozen

UNKNOWN_SHOTS = -1
ROUNDING = 1e-3
"""A log-probability of a sure token may be this far above 0: sums in half precision are."""


class TokenLogprob(Frozen):
    """One scored token; what another program didn't say is NaN. Nats."""

    token_id: int = Field(ge=0)
    logprob: float = Field(le=0, allow_inf_nan=False)
    rank: int = Field(ge=1)
    top_logprob: float = float("nan")
    entropy: float = float("nan")


class EvalAnswer(Frozen):
    """A request of a benchmark and what a model answered.

    Attributes:
        task: its name.
        item: document of the task, from 0.
        choice: which choice, from 0.
        context: the prompt.
        continuation: what is scored behind it; empty for a generation.
        reference: the choice without its delimiter; the continuation without leading spaces if
            it isn't given.
        is_gold: whether the choice is right, None if unknown.
        gold: right answers of a generation.
        request_type: as lm-evaluation-harness has it.
        unconditional: the choice without its prompt.
        subject: what the item is about.
        shots: worked examples in the prompt, -1 if unknown.
        chat: what sets the prompts apart that are put as a conversation; empty for plain ones.
        words, bytes: of the reference, where the task counts them in its own way.
        loglikelihood: of the continuation, nats, -inf for an impossible one; not together with
            `tokens`.
        is_greedy: whether each token was the top-1 token.
        tokens: of the continuation, in order.
        context_tokens: tokens that the model read before the first of them.
        tokens_cut: tokens of the prompt that it did not read.
        answers: generated text by filter.
        options: see `eval_items`.
        backend: what ran the model.
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
        """What sets its requests apart from others of the task, as a folder may have it."""
        return run_name(self.shots, self.chat)


def run_name(shots: int | None, chat: str) -> str:
    """What sets requests apart from others of their task, as a folder may have it.

    Args:
        shots: worked examples in a prompt; None or -1 if unknown.
        chat: as in `EvalAnswer`.
    """
    known = [] if shots in (None, UNKNOWN_SHOTS) else [f"{shots}shot"]
    return "-".join([*known, *([f"chat{chat}"] if chat else [])])
