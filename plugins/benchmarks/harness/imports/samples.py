"""`data import --format samples`: samples of lm-evaluation-harness as benchmark answers.

`--log_samples` writes one file per task. Few-shot examples and chat are read from the
`results_<date>.json` in the same folder. Up to 0.4.8, requests for mutual information repeat the
choices without a prompt and without their delimiter; later ones keep the delimiter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from plugins.benchmarks.harness.imports.gold_choices import gold_choices, refuse_other_accuracy
from plugins.benchmarks.harness.imports.logged_scores import logged_scores
from plugins.benchmarks.harness.imports.sample_files import (
    Sample,
    facts_beside,
    model_of,
    read_samples,
    run_name,
    task_of,
)
from plugins.benchmarks.harness.imports.task_import import LoggedRequest, TaskImport, item_table
from plugins.benchmarks.harness.stored_items import condition_of, refuse_clashes
from plugins.benchmarks.refusal import refused
from warehouse.errors import visible
from warehouse.importers.importer import Destination, StoringImporter
from warehouse.terminal import counted

ROUNDING = 1e-3
"""Largest accepted log-probability above 0; sums in half precision can exceed 0."""


class HarnessSamples(StoringImporter):
    """Every request of a task, with all its answer filters."""

    kind = "samples"
    build = "tokenmart dbt run --select tag:benchmarks"

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Write one model's answers; every sample is checked before anything is written.

        Each task gets a condition of its own from its few-shot examples and chat, so that it is
        listed next to answers of `eval` and never mixed with them.

        Args:
            files: all files of the import, one per task.
            to: with `force`, another result of the model is replaced, never one of another model.

        Returns:
            Items by task.

        Raises:
            TokenmartError: a file or a sample is invalid, two files are of different models or of
                one task, or the import conflicts with a stored result: see
                `TaskImport.refuse_conflicts`.
            StorageError: the disk is full or the folder can't be written.
        """
        _refuse_several_models(files)
        found: dict[tuple[str, str], TaskImport] = {}
        notes: list[str] = []
        for file in files:
            task = task_of(file)
            facts = facts_beside(file, task)
            samples = list(read_samples(file))
            requests = read_requests(file, task, samples)
            run = run_name(facts.shots, facts.chat)
            condition = condition_of(task, f"{run}-{self.kind}" if run else self.kind)
            if (task, condition) in found:
                other = found[task, condition].file
                raise refused(file, f"{other} has the same task", "task-twice")
            found[task, condition] = TaskImport(
                file=file,
                keys=(to.problem, to.model_id, condition),
                requests=requests,
                items=item_table(task, facts.shots, requests),
                scores=list(logged_scores(samples, facts)),
                version=facts.version,
            )
            refuse_clashes(to.workspace, to.problem, found)
            notes += _without_gold(file, requests)
        for each in found.values():
            each.refuse_conflicts(to.workspace, force=to.force)
        for each in found.values():
            each.store(to.workspace)
        for note in notes:
            click.echo(visible(f"note: {note}"), err=True)
        counts: dict[str, int] = {}
        for (task, _), each in found.items():
            counts[task] = counts.get(task, 0) + len(set(each.items["item"].to_pylist()))
        return counts


def read_requests(path: Path, task: str, samples: Sequence[Sample]) -> list[LoggedRequest]:
    """The requests of a task, sorted by item and choice.

    Raises:
        TokenmartError: not a sample file, or it contradicts its own metrics.
    """
    generations: dict[int, LoggedRequest] = {}
    scored: dict[int, list[LoggedRequest]] = {}
    seen: set[tuple[int, str]] = set()
    for sample in samples:
        try:
            if (sample.item, sample.filter) in seen:
                raise refused(sample.place, f"item {sample.item} was given before", "item-twice")
            seen.add((sample.item, sample.filter))
            asked = sample.arguments
            if len(asked[0]) == 2 and isinstance(asked[0][1], dict):
                if sample.item not in generations:
                    generations[sample.item] = _generation(sample, asked)
                text = sample.content["filtered_resps"][0]
                text = text[0] if isinstance(text, list) else text
                answers = generations[sample.item].answers
                answers[sample.filter] = None if text is None else str(text)
            elif sample.item not in scored:
                scored[sample.item] = list(_scored(_logged(sample, asked), task))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise refused(
                sample.place,
                f"not a sample of lm-evaluation-harness ({type(error).__name__}: "
                f"{error}); expected a file of --log_samples",
                "no-sample",
            ) from error
    requests = [*generations.values(), *(each for item in scored.values() for each in item)]
    if not requests:
        raise refused(path, "contains no sample", "no-answer")
    return sorted(requests, key=lambda each: (each.item, each.choice, each.unconditional))


def _refuse_several_models(files: Sequence[Path]) -> None:
    """Stop at files whose files of results name different models; None is unknown."""
    first: dict[str, Path] = {}
    for file in files:
        if (name := model_of(file)) is not None:
            first.setdefault(name, file)
    if len(first) > 1:
        (one, file), (other, other_file), *_ = first.items()
        raise refused(file, f"model {one}, {other_file}: {other}", "several-runs")


def _without_gold(file: Path, requests: Sequence[LoggedRequest]) -> Iterator[str]:
    """A note on items without a right choice."""
    right: dict[int, set[bool | None]] = {}
    for each in requests:
        if each.request_type == "multiple_choice":
            right.setdefault(each.item, set()).add(each.is_gold)
    if count := sum(found == {False} for found in right.values()):
        yield (
            f"{file}: {count} of {counted(len(right), 'item')} have no right choice: each counts "
            "as wrong"
        )


@dataclass(frozen=True)
class _Logged:
    """A sample with log-likelihood requests.

    asked: arguments of each request. answers: log-likelihood of each request, and whether it is
    greedy. choices: continuations of the choices. delimiter: what each continuation begins with
    before its choice, where the requests show it; None where they don't.
    """

    sample: Sample
    asked: list[list[Any]]
    answers: list[tuple[float, bool]]
    choices: list[str]
    delimiter: str | None

    def choice_text(self, choice: int) -> str:
        """A choice without its delimiter; without the white space before it if that is unknown."""
        text = self.choices[choice]
        if self.delimiter is not None:
            return text.removeprefix(self.delimiter)
        return text.lstrip() or text


def _logged(sample: Sample, asked: list[list[Any]]) -> _Logged:
    answers = [
        (float(each[0]), str(each[1]) == "True") if isinstance(each, list) else (float(each), False)
        for each in sample.content["filtered_resps"]
    ]
    if len(answers) != len(asked):
        raise ValueError(f"{len(asked)} requests, {len(answers)} responses")
    if any(score != score or score > ROUNDING for score, _ in answers):
        found = [score for score, _ in answers]
        raise refused(
            sample.place,
            f"log-likelihoods {found}, expected numbers of at most 0",
            "log-likelihood",
        )
    delimiter = _unconditional_delimiter(asked)
    requests = asked if delimiter is None else asked[: len(asked) // 2]
    return _Logged(
        sample=sample,
        asked=asked,
        answers=[(min(score, 0.0), is_greedy) for score, is_greedy in answers],
        choices=[str(each[-1]) for each in requests],
        # requests since 0.4.9 repeat the delimiter, which doesn't show what it is
        delimiter=delimiter or None,
    )


def _unconditional_delimiter(asked: list[list[Any]]) -> str | None:
    """What the second half of the requests lacks, if it repeats the first without a prompt.

    Empty if nothing is lacking; None if the requests don't repeat.
    """
    half = len(asked) // 2
    if len(asked) % 2 or any(len(each) < 2 for each in asked) or any(e[0] for e in asked[half:]):
        return None
    if not any(each[0] for each in asked[:half]):
        return None
    left = {
        str(one[1]).removesuffix(str(other[1])) if str(one[1]).endswith(str(other[1])) else None
        for one, other in zip(asked[:half], asked[half:], strict=True)
    }
    return left.pop() if len(left) == 1 else None


def _scored(logged: _Logged, task: str) -> Iterator[LoggedRequest]:
    """The requests of an item with log-likelihoods."""
    sample = logged.sample
    if len(logged.asked[0]) == 1:
        yield _rolling(logged)
        return
    count = len(logged.choices)
    accuracy = sample.metrics.get("acc")
    golds: list[int] | None = [0]
    if count > 1:
        # of several true answers, acc may be their share of probability: a task's own metric
        golds = None
        if not (isinstance(accuracy, float) and 0 < accuracy < 1):
            golds = gold_choices(sample.place, sample.content["target"], logged.choices, task)
            scores = [score for score, _ in logged.answers[:count]]
            refuse_other_accuracy(sample.place, scores, golds, sample.metrics, task)
    elif accuracy is not None and accuracy != float(logged.answers[0][1]):
        raise refused(
            sample.place,
            f"acc is {accuracy!r}, greedy {logged.answers[0][1]}: the task has its own rule",
            "other-accuracy",
        )
    for number, (arguments, answer) in enumerate(zip(logged.asked, logged.answers, strict=True)):
        choice, text = number % count, str(arguments[1])
        yield LoggedRequest(
            item=sample.item,
            request_type="multiple_choice" if count > 1 else "loglikelihood",
            context=str(arguments[0]),
            continuation=text,
            reference=logged.choice_text(choice) if count > 1 else text.lstrip() or text,
            choice=choice,
            unconditional=number >= count,
            is_gold=None if golds is None else choice in golds,
            loglikelihood=answer[0],
            is_greedy=answer[1],
            options={"own_metrics": accuracy not in (0, 1)},
        )


def _generation(sample: Sample, asked: list[list[Any]]) -> LoggedRequest:
    target = sample.content["target"]
    if isinstance(target, str) and target.startswith("["):
        try:
            target = ast.literal_eval(target)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            target = [target]
    gold = [str(each) for each in target] if isinstance(target, list) else [str(target)]
    return LoggedRequest(
        item=sample.item,
        request_type="generate_until",
        context=str(asked[0][0]),
        continuation="",
        reference=gold[0] if gold else "",
        gold=gold,
        # the task's own code compares the texts, so its logged metrics are used
        options={"generation": asked[0][1], "exact_match": None},
    )


def _rolling(logged: _Logged) -> LoggedRequest:
    """A text scored without a prompt; numbers of words and bytes as in the task."""
    text = str(logged.asked[0][0])
    counts = {}
    for metric, unit in (("word_perplexity", "words"), ("byte_perplexity", "bytes"),
                         ("bits_per_byte", "bytes")):  # fmt: skip
        pair = logged.sample.metrics.get(metric)
        if isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int:
            counts[unit] = pair[1]
    return LoggedRequest(
        item=logged.sample.item,
        request_type="loglikelihood_rolling",
        context="",
        continuation=text,
        reference=text,
        is_gold=True,
        loglikelihood=logged.answers[0][0],
        lengths=counts,
    )
