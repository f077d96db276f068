"""Targets of a problem file: a locked file, imported scores, or recall to be measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from warehouse.frozen import Frozen
from warehouse.sources.documents import PinnedArchive

RecallTask = Literal["single_key", "multi_key", "multi_value", "variable_tracking", "common_words"]
RECALL_TASKS: tuple[RecallTask, ...] = get_args(RecallTask)
DEFAULT_TASKS: tuple[RecallTask, ...] = ("single_key",)
Overall = Literal["all", "without_shortest"]


def _increasing(lengths: tuple[int, ...]) -> tuple[int, ...]:
    if list(lengths) != sorted(set(lengths)) or lengths[0] < 64:
        raise ValueError("lengths must increase and be at least 64 tokens")
    return lengths


def _told_apart(tasks: tuple[RecallTask, ...]) -> tuple[RecallTask, ...]:
    if len(set(tasks)) < len(tasks):
        raise ValueError("a task is listed twice; remove one")
    return tasks


Lengths = Annotated[tuple[int, ...], Field(min_length=1), AfterValidator(_increasing)]
Tasks = Annotated[tuple[RecallTask, ...], Field(min_length=1), AfterValidator(_told_apart)]


class FileTarget(Frozen):
    """Downstream scores in a locked JSON file."""

    kind: Literal["file"]
    path: Path
    url: str | None = None


class ImportedTarget(Frozen):
    """Downstream scores imported with `tokenmart data import`."""

    kind: Literal["imported"]


class RecallTarget(Frozen):
    """Recall over long contexts, measured with tasks modelled on RULER.

    Each of `contexts` contexts has `lengths[-1]` tokens of filler with planted sentences, one per
    `key_every` tokens, alternating between all `tasks`. At each length the questions ask for the
    sentences so far. The overall score averages `all` lengths, or those `without_shortest`, where
    models differ for other reasons than memory. Tasks have equal weights.

    `control_keys` times at each length, a planted value is asked for after a name that was never
    planted (task `no_key`, no part of the overall score): its score measures copying of digits, not
    recall.
    """

    kind: Literal["recall"]
    filler: PinnedArchive
    lengths: Lengths
    contexts: int = Field(ge=1)
    key_every: int = Field(ge=32)
    value_digits: int = Field(default=5, ge=1, le=12)
    score: Literal["token_accuracy", "first_token", "exact_match"] = "token_accuracy"
    seed: int = 0
    tasks: Tasks = DEFAULT_TASKS
    overall: Overall = "all"
    control_keys: int = Field(default=4, ge=0)

    @property
    def measured(self) -> dict[str, Any]:
        """Everything that the measured rows depend on, as plain values.

        What `overall` averages is no part of it, and neither are tasks as they were before there
        was a choice.
        """
        without = {"overall"} | ({"tasks"} if self.tasks == DEFAULT_TASKS else set())
        return self.model_dump(mode="json", exclude=without)

    @property
    def counted_lengths(self) -> tuple[int, ...]:
        """The lengths that the overall score averages; one alone always counts."""
        return self.lengths[self.overall == "without_shortest" :] or self.lengths


Target = Annotated[FileTarget | RecallTarget | ImportedTarget, Field(discriminator="kind")]


class Demo(Frozen):
    """A part of the problem small enough for a first run on a laptop.

    `contexts`, `lengths`, `tasks` and `overall` replace those of a recall target.
    """

    documents: int = Field(gt=0)
    max_tokens: int = Field(gt=1)
    models: tuple[str, ...] = Field(min_length=1)
    contexts: int | None = Field(default=None, gt=0)
    lengths: Lengths | None = None
    tasks: Tasks | None = None
    overall: Overall | None = None
