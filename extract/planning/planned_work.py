"""Planned work of each unit, by which progress and the time left are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from extract.planning.cost import CHARACTERS_PER_TOKEN, work_of
from extract.planning.cuts import most_tokens
from extract.planning.model_size import model_size
from extract.planning.plan import Document, Selection, max_tokens_of
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem


class PlannedWork:
    """Planned tokens through a model, times its number of weights.

    A model of unknown size counts as the median of the others.
    """

    def __init__(self, problem: Problem, selection: Selection, workspace: Workspace) -> None:
        self.selection = selection
        limit = max_tokens_of(problem, selection)
        sizes = {
            spec.full_id: model_size(spec, workspace, problem=problem.name)
            for spec in selection.models
        }
        known = [float(size.parameters) for size in sizes.values() if size]
        usual = median(known) if known else 1.0
        self._weights = {
            name: float(size.parameters) if size else usual for name, size in sizes.items()
        }
        self._most = {
            spec.full_id: min(
                (n for n in (limit, most_tokens(problem, spec, workspace)) if n is not None),
                default=None,
            )
            for spec in selection.models
        }
        self._tokens: dict[tuple[int, tuple[str, ...]], int] = {}

    def of(self, spec: ModelSpec, document: Document, conditions: Sequence[Condition]) -> float:
        """Work of some conditions of one document."""
        length = len(document.text) // CHARACTERS_PER_TOKEN
        most = self._most[spec.full_id]
        length = length if most is None else min(length, most)
        return self._weights[spec.full_id] * self.tokens(length, conditions)

    def tokens(self, length: int, conditions: Sequence[Condition]) -> int:
        """Tokens that pass through a model for a document of this many tokens; at least 1."""
        key = (length, tuple(condition.name for condition in conditions))
        if key not in self._tokens:
            self._tokens[key] = max(1, work_of([length], conditions).tokens)
        return self._tokens[key]

    def of_model(self, spec: ModelSpec, documents: Sequence[Document]) -> float:
        """Work of all selected conditions of some documents."""
        return sum(self.of(spec, each, self.selection.conditions) for each in documents)

    def total(self, documents: Sequence[Document]) -> float:
        """Work of the whole selection."""
        return sum(self.of_model(spec, documents) for spec in self.selection.models)


class WithinUnit:
    """Reports the part of one document's work that is done, as tokens pass through the model.

    Args:
        report: is called with the work done since the last call.
    """

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._work, self._tokens, self._left = 0.0, 1, 0.0

    def begin(self, work: float, tokens: int) -> None:
        """A document: its planned work, and the tokens that will pass through the model for it."""
        self._work, self._tokens, self._left = work, tokens, 1.0

    def passed(self, tokens: float) -> None:
        """Tokens that passed; outside of a document (a check of the engine) they don't count."""
        share = min(tokens / self._tokens, self._left)
        if share > 0:
            self._left -= share
            self._report(share * self._work)

    def end(self) -> None:
        """The document is scored: what was planned and not passed is done, too."""
        self.passed(self._left * self._tokens)
        self._left = 0.0
