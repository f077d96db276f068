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
from plugins.benchmarks.harness.imports.imported_groups import ImportedGroup
from plugins.benchmarks.harness.imports.measured import refuse_several_models
from plugins.benchmarks.harness.imports.stored_results import TaskImport, models_with_results
from plugins.benchmarks.harness.stored_items import condition_of, refuse_clashes
from warehouse.errors import TokenmartError, visible
from warehouse.importers.importer import Destination, Row, StoringImporter, refuse_missing_or_twice
from warehouse.terminal import counted

LEAST_BYTES = 3
"""Lower limit of the average number of bytes per token in a prompt, for most languages."""


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

    def longest(self, path: Path) -> int | None:
        """Context length of the model, if the program cut longer prompts without recording it."""

    def groups(self, files: Sequence[Path]) -> Iterator[ImportedGroup]:
        """The groups of tasks whose values are in the files."""
        yield from ()

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Store one model's answers: see `import_answers`."""
        return import_answers(self, files, to)


def import_answers(reader: EvalImporter, files: Sequence[Path], to: Destination) -> dict[str, int]:
    """Write one model's answers; every row is checked before anything is written.

    Each task gets a condition of its own from its few-shot examples and chat, so that it is listed
    next to answers of `eval` and never mixed with them.

    Args:
        reader: the importer of the format.
        files: all files of the import.
        to: with `force`, another result of the model is replaced, never one of another model.

    Returns:
        Items by task.

    Raises:
        TokenmartError: a file or a row is invalid, two tasks would share a folder, or the import
            conflicts with a stored result: see `TaskImport.refuse_conflicts`.
        StorageError: the disk is full or the folder can't be written.
    """
    workspace, problem = to.workspace, to.problem
    by_run: dict[tuple[str, str], dict[tuple[int, int, bool], EvalAnswer]] = {}
    scores: dict[tuple[str, str], list[dict[str, Any]]] = {}
    files_of: dict[tuple[str, str], dict[Path, str | None]] = {}
    notes: list[str] = []
    refuse_missing_or_twice(files)
    refuse_several_models({file: reader.model(file) for file in files})
    for file in files:
        run: tuple[str, str] | None = None
        of_file: list[EvalAnswer] = []
        for row in reader.read(file):
            of_file.append(answer := _checked(row))
            key = answer.item, answer.choice, answer.unconditional
            given = by_run.setdefault((answer.task, answer.run), {})
            if given.setdefault(key, answer) is not answer:
                raise TokenmartError(
                    f"{row.place}: task {answer.task!r}, item {answer.item}, choice "
                    f"{answer.choice} was given before; keep one (nothing was imported)"
                )
            run = answer.task, answer.run
            if file not in files_of.setdefault(run, {}):
                files_of[run][file] = reader.version(file)
        if run is not None:
            scores.setdefault(run, []).extend(reader.scores(file))
            notes += _perhaps_cut(file, of_file, reader.longest(file))
            notes += _undecided(file, of_file)
    if not by_run:
        names = ", ".join(str(file) for file in files)
        raise TokenmartError(f"{names}: contains no answer; nothing was imported")

    def condition_of_run(task: str, run: str) -> str:
        return condition_of(task, f"{run}-{reader.kind}" if run else reader.kind)

    conditions = {each: condition_of_run(*each) for each in by_run}
    refuse_clashes(workspace, problem, [(t, condition) for (t, _), condition in conditions.items()])
    prepared = []
    for task_run, found in by_run.items():
        answers = [found[key] for key in sorted(found)]
        keys = problem, to.model_id, conditions[task_run]
        prepared.append(
            each := TaskImport(
                files=list(files_of[task_run]),
                keys=keys,
                answers=answers,
                items=item_rows_of(answers),
                scores=scores.get(task_run, []),
                run=task_run[1],
                version=_one_version(task_run[0], files_of[task_run]),
            )
        )
        each.refuse_conflicts(workspace, force=to.force)

    def has_other_models(condition: str) -> bool:
        return bool({*models_with_results(workspace, problem, condition)} - {to.model_id})

    store_groups = [
        group.stored(workspace, problem, condition_of_run, has_other_models, force=to.force)
        for group in reader.groups(files)
    ]
    for each in prepared:
        each.store(workspace)
    for store in store_groups:
        notes += store()
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
    counts: dict[str, int] = {}
    for (task, _), found in by_run.items():
        counts[task] = counts.get(task, 0) + len({item for item, _, _ in found})
    return counts


def _perhaps_cut(file: Path, answers: Sequence[EvalAnswer], longest: int | None) -> Iterator[str]:
    """Notes on prompts that are probably longer than the model's context."""
    asked = [each for each in answers if each.request_type != "loglikelihood_rolling"]
    texts = (each.context + each.continuation for each in asked)
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    if longest and (count := sum(size > longest * LEAST_BYTES for size in sizes)):
        yield (
            f"{file}: {count} of {counted(len(asked), 'request')} have more than {LEAST_BYTES} "
            f"bytes for each of the {longest:,} tokens that the model read: their prompts were "
            "probably cut, which the file does not record (tokens_cut stays empty)"
        )


def _undecided(file: Path, answers: Sequence[EvalAnswer]) -> Iterator[str]:
    """What to know of items without a right choice, or with one log-likelihood for all choices."""
    right: dict[int, list[bool | None]] = {}
    for each in answers:
        if each.request_type == "multiple_choice":
            right.setdefault(each.item, []).append(each.is_gold)
    if count := sum(set(found) == {False} for found in right.values()):
        yield (
            f"{file}: {count} of {counted(len(right), 'item')} have no right choice: each counts "
            "as wrong"
        )
    choices: dict[int, dict[tuple[str, str], float]] = {}
    for each in answers:
        if each.loglikelihood is not None and not each.unconditional:
            asked = each.context, each.continuation
            choices.setdefault(each.item, {})[asked] = each.loglikelihood
    several = [found for found in choices.values() if len(found) > 1]
    if count := sum(len(set(found.values())) == 1 for found in several):
        yield (
            f"{file}: {count} of {counted(len(several), 'item')} have one log-likelihood for all "
            "choices: the program counted the first choice as the model's"
        )


def _one_version(task: str, versions: Mapping[Path, str | None]) -> str | None:
    """The version of a task in all files that state one.

    Raises:
        TokenmartError: they state several.
    """
    stated = {version: file for file, version in versions.items() if version is not None}
    if len(stated) > 1:
        (one, first), (other, second), *_ = stated.items()
        raise TokenmartError(
            f"task {task!r}: {first} is of version {one}, {second} of version {other}; import one "
            "of them (nothing was imported)"
        )
    return next(iter(stated), None)


def _checked(row: Row) -> EvalAnswer:
    try:
        return EvalAnswer.model_validate({k: v for k, v in row.fields.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the row"
        said = first["msg"].removeprefix("Value error, ")
        raise TokenmartError(
            f"{row.place}: {field}: {said}; correct the row (nothing was imported)"
        ) from error
