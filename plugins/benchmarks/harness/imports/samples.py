"""`data import --format samples`: samples of lm-evaluation-harness as benchmark answers.

`--log_samples` writes one file per task. Few-shot examples and chat are read from the
`results_<date>.json` in the same folder.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.imports.logged_scores import logged_scores
from plugins.benchmarks.harness.imports.sample_files import (
    Sample,
    facts_beside,
    read_samples,
    run_name,
    task_of,
)
from plugins.benchmarks.harness.imports.task_import import (
    Logged,
    TaskImport,
    logged_request,
    task_import,
)
from plugins.benchmarks.harness.stored_items import condition_of
from plugins.benchmarks.refusal import refused
from warehouse.problem.importers import Destination, Importer

ROUNDING = 1e-3
"""Largest accepted log-probability above 0; sums in half precision can exceed 0."""


class HarnessSamples(Importer):
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
        imports: dict[tuple[str, str], TaskImport] = {}
        counts: dict[str, int] = {}
        model = ""
        for file in files:
            task = task_of(file)
            facts = facts_beside(file, task)
            if model and facts.model and facts.model != model:
                raise refused(file, f"of {facts.model}, other files of {model}", "several-runs")
            model = model or facts.model
            samples = list(read_samples(file))
            requests = read_requests(file, task, samples)
            run = run_name(facts.shots, facts.chat)
            condition = condition_of(task, f"{run}-{self.kind}" if run else self.kind)
            if (task, condition) in imports:
                raise refused(file, f"another file has the task {task}, too", "task-twice")
            keys = to.problem, to.model_id, condition
            scores = list(logged_scores(samples, facts))
            imports[task, condition] = task_import(keys, task, facts, requests, scores)
            counts[task] = counts.get(task, 0) + len({each["item"] for each in requests})
        for task_rows in imports.values():
            task_rows.refuse_conflicts(to.workspace, force=to.force)
        for task_rows in imports.values():
            task_rows.store(to.workspace)
        return counts


def read_requests(path: Path, task: str, samples: Sequence[Sample]) -> list[Logged]:
    """The requests of a task, sorted by item and choice.

    Raises:
        TokenmartError: not a sample file, or it contradicts its own metrics.
    """
    generations: dict[int, Logged] = {}
    scored: dict[int, list[Logged]] = {}
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
                answers = generations[sample.item]["answers"]
                answers[sample.filter] = None if text is None else str(text)
            elif sample.item not in scored:
                scored[sample.item] = list(_scored(sample, asked, task))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = f"not a sample of lm-evaluation-harness ({type(error).__name__}: {error})"
            raise refused(sample.place, what, "no-sample") from error
    requests = [*generations.values(), *(each for item in scored.values() for each in item)]
    if not requests:
        raise refused(path, "contains no sample", "no-answer")
    return sorted(requests, key=itemgetter("item", "choice", "unconditional"))


def _log_likelihoods(sample: Sample, count: int) -> list[tuple[float, bool]]:
    """Log-likelihood of each request, and whether it is greedy."""
    scored = [
        (float(response[0]), str(response[1]) == "True")
        if isinstance(response, list)
        else (float(response), False)
        for response in sample.content["filtered_resps"]
    ]
    if len(scored) != count:
        raise ValueError(f"{count} requests, {len(scored)} responses")
    if any(score != score or score > ROUNDING for score, _ in scored):
        what = f"log-likelihoods {scored}, expected numbers of at most 0"
        raise refused(sample.place, what, "log-likelihood")
    return [(min(score, 0.0), is_greedy) for score, is_greedy in scored]


def _scored(sample: Sample, asked: list[list[Any]], task: str) -> Iterator[Logged]:
    """The requests of an item with log-likelihoods."""
    answers = _log_likelihoods(sample, len(asked))
    if len(asked[0]) == 1:
        yield _rolling(sample, str(asked[0][0]), answers[0][0])
        return
    # for mutual information, all choices are scored again without a prompt
    half = len(asked) // 2
    repeats = len(asked) % 2 == 0 and asked[0][0] and not any(each[0] for each in asked[half:])
    count = half if repeats else len(asked)
    texts = [str(each[1]).lstrip() or str(each[1]) for each in asked]
    accuracy = sample.metrics.get("acc")
    golds: list[int] | None = [0]
    if count > 1:
        # of several true answers, acc may be their share of probability: a task's own metric
        golds = None
        if not (isinstance(accuracy, float) and 0 < accuracy < 1):
            golds = _gold_choices(sample, [text.strip() for text in texts[:count]], task)
            likeliest = max(range(count), key=lambda choice: answers[choice][0])  # the first
            _refuse_other_accuracy(sample, accuracy, likeliest in golds)
    else:
        _refuse_other_accuracy(sample, accuracy, answers[0][1])
    for number, (arguments, answer) in enumerate(zip(asked, answers, strict=True)):
        choice = number % count
        yield logged_request(
            sample.item,
            "multiple_choice" if count > 1 else "loglikelihood",
            texts[choice],
            context=str(arguments[0]),
            continuation=str(arguments[1]),
            choice=choice,
            unconditional=number >= count,
            is_gold=None if golds is None else choice in golds,
            loglikelihood=answer[0],
            is_greedy=answer[1],
            options={"own_metrics": accuracy not in (0, 1)},
        )


def _gold_choices(sample: Sample, texts: Sequence[str], task: str) -> list[int]:
    """Indices of the right choices of an item.

    A sample's `target` is the harness's `doc_to_target` as text: the index of a choice, its text,
    or a list of these. Tasks whose choices differ in the prompt only (`multiple_input`, such as
    Winogrande) log no target.

    Raises:
        TokenmartError: the target is none of the choices, or could be two.
    """
    target = sample.content["target"]
    parts = [target] if str(target).strip() in texts else _listed(target)
    gold: list[int] = []
    for part in parts:
        text = str(part).strip()
        meant = {at for at, each in enumerate(texts) if each == text}
        if text.isascii() and text.isdecimal() and int(text) < len(texts):
            meant.add(int(text))
        if len(meant) != 1:
            what = (
                f"its target {target!r:.60} is {len(meant) or 'none'} of the {len(texts)} choices; "
                f"run the task here: tokenmart eval --tasks {task}"
            )
            raise refused(sample.place, what, "unknown-gold")
        gold += meant
    return gold


def _listed(target: Any) -> list[Any]:
    """The elements of a target; a list is logged as Python text."""
    if isinstance(target, str) and target.strip().startswith("["):
        try:
            target = ast.literal_eval(target.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [target]
    return list(target) if isinstance(target, list | tuple) else [target]


def _refuse_other_accuracy(sample: Sample, logged: Any, is_right: bool) -> None:
    """Stop if the logged `acc` is not that of the log-likelihoods and right choices.

    Raises:
        TokenmartError: it differs.
    """
    if logged is not None and logged != float(is_right):
        what = f"acc is {logged!r}, by log-likelihoods and target {float(is_right)}"
        raise refused(sample.place, what, "other-accuracy")


def _generation(sample: Sample, asked: list[list[Any]]) -> Logged:
    gold = [str(each) for each in _listed(sample.content["target"])]
    return logged_request(
        sample.item,
        "generate_until",
        gold[0] if gold else "",
        context=str(asked[0][0]),
        gold=json.dumps(gold),
        options={"generation": asked[0][1]},
    )


def _rolling(sample: Sample, text: str, loglikelihood: float) -> Logged:
    """A text scored without a prompt; numbers of words and bytes as in the task."""
    counts = {}
    for metric, unit in (("word_perplexity", "words"), ("byte_perplexity", "bytes"),
                         ("bits_per_byte", "bytes")):  # fmt: skip
        pair = sample.metrics.get(metric)
        if isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int:
            counts[unit] = pair[1]
    return logged_request(
        sample.item,
        "loglikelihood_rolling",
        text,
        continuation=text,
        is_gold=True,
        loglikelihood=loglikelihood,
        **counts,
    )
