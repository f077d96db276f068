"""Import benchmark answers of other programs: requests and log-likelihoods into the tables of
`eval`.

A format is one file with a subclass of `EvalImporter`, in `importers/` of a plugin folder.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from plugins.benchmarks.harness.answer_tables import item_rows_of
from plugins.benchmarks.harness.eval_answer import EvalAnswer
from plugins.benchmarks.harness.imports.stored_results import TaskImport
from plugins.benchmarks.harness.stored_items import condition_of, refuse_clashes
from warehouse.errors import TokenmartError, visible
from warehouse.importers.importer import Destination, Row, StoringImporter, refuse_missing_or_twice
from warehouse.terminal import counted

_Run = tuple[str, str]
"""A task, and few-shot examples and chat of its prompts."""


class EvalImporter(StoringImporter):
    """A format of benchmark answers; `kind` is its name."""

    build = "tokenmart dbt run --select tag:benchmarks"

    @abstractmethod
    def read(self, path: Path) -> Iterator[Row]:
        """The requests of a file, with the fields of `EvalAnswer`, not yet checked.

        Raises:
            TokenmartError: the file can't be read, or is not in this format.
        """

    def scores(self, path: Path) -> Iterator[dict[str, Any]]:
        """The metrics of a file's task, in the columns of `eval_scores` without those of the
        requests.

        A file with metrics has one task.
        """
        yield from ()

    def model(self, path: Path) -> str | None:
        """The model that a file is of; None where it names none."""
        return None

    def version(self, path: Path) -> str | None:
        """Version of the task in a file with one task; None if unknown."""

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Write one model's answers; every row is checked before anything is written.

        Each task gets a condition of its own from its few-shot examples and chat, so that it is
        listed next to answers of `eval` and never mixed with them.

        Args:
            files: all files of the import.
            to: with `force`, another result of the model is replaced, never one of another model.

        Returns:
            Items by task.

        Raises:
            TokenmartError: a file or a row is invalid, two tasks would share a folder, or the
                import conflicts with a stored result: see `TaskImport.refuse_conflicts`.
            StorageError: the disk is full or the folder can't be written.
        """
        refuse_missing_or_twice(files)
        _refuse_several("model", {file: self.model(file) for file in files})
        by_run: dict[_Run, dict[tuple[int, int, bool], EvalAnswer]] = {}
        scores: dict[_Run, list[dict[str, Any]]] = {}
        versions: dict[_Run, dict[Path, str | None]] = {}
        notes: list[str] = []
        for file in files:
            of_file: list[EvalAnswer] = []
            for row in self.read(file):
                of_file.append(answer := _checked(row))
                run = answer.task, answer.run
                key = answer.item, answer.choice, answer.unconditional
                if by_run.setdefault(run, {}).setdefault(key, answer) is not answer:
                    raise _refused(
                        row.place,
                        f"task {answer.task!r}, item {answer.item}, choice {answer.choice} was "
                        "given before",
                        "answer-twice",
                    )
                if file not in versions.setdefault(run, {}):
                    versions[run][file] = self.version(file)
            if of_file:
                run = of_file[-1].task, of_file[-1].run
                scores.setdefault(run, []).extend(self.scores(file))
                notes += _without_gold(file, of_file)
        if not by_run:
            raise _refused(", ".join(map(str, files)), "contains no answer", "no-answer")
        conditions = {
            run: condition_of(run[0], f"{run[1]}-{self.kind}" if run[1] else self.kind)
            for run in by_run
        }
        names = [(task, condition) for (task, _), condition in conditions.items()]
        refuse_clashes(to.workspace, to.problem, names)
        prepared = []
        for run, found in by_run.items():
            answers = [found[key] for key in sorted(found)]
            _refuse_several(f"version of task {run[0]!r}", versions[run])
            prepared.append(
                TaskImport(
                    files=list(versions[run]),
                    keys=(to.problem, to.model_id, conditions[run]),
                    answers=answers,
                    items=item_rows_of(answers),
                    scores=scores.get(run, []),
                    run=run[1],
                    version=next(filter(None, versions[run].values()), None),
                )
            )
        for each in prepared:
            each.refuse_conflicts(to.workspace, force=to.force)
        for each in prepared:
            each.store(to.workspace)
        for note in notes:
            click.echo(visible(f"note: {note}"), err=True)
        counts: dict[str, int] = {}
        for (task, _), found in by_run.items():
            counts[task] = counts.get(task, 0) + len({item for item, _, _ in found})
        return counts


def _refused(place: str, what: str, code: str) -> TokenmartError:
    return TokenmartError(f"{place}: {what} (nothing was imported)", code=code, where=place)


def _refuse_several(what: str, stated: Mapping[Path, str | None]) -> None:
    """Stop at files that state different models or versions; None is unknown.

    Raises:
        TokenmartError: they do; with two of the files.
    """
    first: dict[str, Path] = {}
    for file, name in stated.items():
        if name is not None:
            first.setdefault(name, file)
    if len(first) > 1:
        (one, file), (other, other_file), *_ = first.items()
        raise _refused(str(file), f"{what} {one}, {other_file}: {other}", "several-runs")


def _without_gold(file: Path, answers: Sequence[EvalAnswer]) -> Iterator[str]:
    """A note on items without a right choice."""
    right: dict[int, list[bool | None]] = {}
    for each in answers:
        if each.request_type == "multiple_choice":
            right.setdefault(each.item, []).append(each.is_gold)
    if count := sum(set(found) == {False} for found in right.values()):
        yield (
            f"{file}: {count} of {counted(len(right), 'item')} have no right choice: each counts "
            "as wrong"
        )


def _checked(row: Row) -> EvalAnswer:
    try:
        return EvalAnswer.model_validate({k: v for k, v in row.fields.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the row"
        raise _refused(row.place, f"{field}: {first['msg']}", "bad-answer") from error
