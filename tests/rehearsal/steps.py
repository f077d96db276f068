"""Steps of a rehearsal: each is announced, timed and either well or named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


class StepFailed(AssertionError):
    """What a step found to be other than it must be."""


@dataclass(frozen=True)
class Step:
    """A finished step."""

    name: str
    seconds: float
    failure: str = ""
    note: str = ""


@dataclass
class Steps:
    """Runs steps one after the other and keeps what came of each."""

    say: Callable[[str], None]
    done: list[Step] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def run(self, name: str, work: Callable[[], str | None]) -> bool:
        """Run one step; `work` returns a note for the table or raises StepFailed."""
        began = time.monotonic()
        self.say(f"[{began - self.started:6.0f} s] {name} …")
        note, failure = "", ""
        try:
            note = work() or ""
        except Exception as error:  # whatever a step raises, the next ones are tried
            failure = str(error) if isinstance(error, StepFailed) else repr(error)
            self.say(f"[{time.monotonic() - self.started:6.0f} s] FAILED: {name}: {failure}")
        self.done.append(Step(name, time.monotonic() - began, failure, note))
        return not failure

    @property
    def failures(self) -> list[Step]:
        """The steps that failed."""
        return [step for step in self.done if step.failure]

    @property
    def seconds(self) -> float:
        """Since the first step began."""
        return time.monotonic() - self.started


def require(condition: object, what: str) -> None:
    """Fail the step unless something holds.

    Raises:
        StepFailed: it doesn't.
    """
    if not condition:
        raise StepFailed(what)
