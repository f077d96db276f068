"""Results of checkpoints sorted into runs, and what to know of a run's results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from plugins.benchmarks.scores.checkpoint_names import NAMES, Checkpoint, parted
from warehouse.errors import TokenmartError

SHOWN = 5
"""Names of a list in a message."""


@dataclass(frozen=True)
class Score:
    """One number of a file.

    limit: of items, 0 for all of them. version: of the task. harness: version of the program.
    weights: commits of the weights, by the harness's name for them (`model_sha`).
    parameters: of the model; None if the file doesn't state them.
    """

    file: Path
    date: float
    limit: float
    version: str
    harness: str
    checkpoint: Checkpoint
    benchmark: str
    metric: str
    direction: str | None
    score: float
    stderr: float | None
    weights: tuple[tuple[str, str], ...] = ()
    parameters: int | None = None

    @property
    def point(self) -> tuple[Any, ...]:
        """Position in a table; two checkpoints at one position are distinguished by their run."""
        return self.checkpoint.step, self.checkpoint.tokens, self.benchmark, self.metric


def runs_of(model: str, scores: Sequence[Score]) -> dict[str, list[Score]]:
    """Scores by run: separate if the rest of the name, or else the model arguments, differ.

    Raises:
        TokenmartError: two checkpoints would be one, and nothing distinguishes them.
    """
    several = len({score.checkpoint.rest for score in scores}) > 1
    found: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        rest = score.checkpoint.rest
        found[f"{model}@{rest}" if several and rest else model].append(score)
    runs: dict[str, list[Score]] = {}
    for run, members in found.items():
        if _clash(members) is None:
            runs[run] = members
            continue
        arguments = {score.checkpoint.other_arguments for score in members}
        common = set.intersection(*map(set, arguments))
        apart: dict[str, list[Score]] = defaultdict(list)
        for score in members:
            own = [pair for pair in score.checkpoint.other_arguments if pair not in common]
            listed = ",".join(f"{key}={value}" for key, value in own)
            apart[f"{run}[{listed}]" if listed else run].append(score)
        if again := next(filter(None, map(_clash, apart.values())), None):
            one, other = again
            raise TokenmartError(
                f"{one.file} and {other.file}: two checkpoints of {run} at one step "
                f"({_different(one, other)}); collect them separately"
            )
        runs |= apart
    return runs


def _clash(scores: Iterable[Score]) -> tuple[Score, Score] | None:
    """Two numbers of different checkpoints at one point of a table."""
    seen: dict[tuple[Any, ...], Score] = {}
    for score in scores:
        before = seen.setdefault(score.point, score)
        if before.checkpoint.identity != score.checkpoint.identity:
            return before, score
    return None


def _different(one: Score, other: Score) -> str:
    first, second = (set(each.checkpoint.identity) for each in (one, other))
    return " and ".join(f"{key}={value}" for key, value in sorted(first ^ second))


def differences(run: str, members: Sequence[Score]) -> Iterator[str]:
    """In what the results of one run differ besides their checkpoints."""
    checkpoints = {score.checkpoint for score in members}
    names = {key for each in checkpoints for key, _ in each.other_arguments} - set(NAMES)
    found: dict[str, set[str]] = defaultdict(set)
    for each in checkpoints:
        given = dict(each.other_arguments)
        for name in names:
            found[name].add(parted(given[name])[0] if name in given else "none")
    for score in members:
        found["version of the harness"].add(score.harness or "unknown")
        found[f"version of {score.benchmark}"].add(score.version or "unknown")
    differ = [
        f"{name} ({', '.join(sorted(values))})"
        for name, values in sorted(found.items())
        if len(values) > 1
    ]
    if differ:
        yield f"{run}: its results differ in {some(differ)}"


def whole_names(members: Sequence[Score]) -> Iterator[str]:
    """Names of one checkpoint alone that may be a model's, such as `org/step3`."""
    checkpoints = {score.checkpoint for score in members}
    for each in checkpoints if len(checkpoints) == 1 else ():
        name = dict(each.identity)["name"]
        if each.step is not None and name.count("/") == 1 and name.partition("/")[0] == each.model:
            yield (
                f"{name}: read as step {each.step} of {each.model}; if it is the name of a model, "
                "correct the table"
            )


def not_tokens(members: Sequence[Score]) -> str | None:
    """Why what follows the step in names can't be tokens; None if it can be."""
    checkpoints = {score.checkpoint for score in members}
    points = sorted(
        (each.step, each.tokens)
        for each in checkpoints
        if each.step is not None and each.tokens is not None
    )
    for (step, tokens), (later, more) in pairwise(points):
        if step < later and tokens >= more:
            return (
                f"the number behind the step in its names ({tokens:g} at step {step}, {more:g} at "
                f"step {later}) doesn't grow and is not read as tokens; the table has steps only"
            )
    return None


def some(names: Iterable[str]) -> str:
    """The first few names of a list, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
