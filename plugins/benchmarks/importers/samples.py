"""Samples of lm-evaluation-harness as benchmark answers: log-likelihoods and generated texts.

`--log_samples` writes one file per task. The files don't record the delimiter of the choices, and
don't always record the right choice: see `gold_choices`. Few-shot examples and chat are read from
the `results_<date>.json` in the same folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import ROUNDING, run_name
from plugins.benchmarks.harness.imports.gold_choices import ChoiceSample, choice_text, gold_choices
from plugins.benchmarks.harness.imports.imported_answers import EvalImporter
from plugins.benchmarks.harness.imports.imported_groups import ImportedGroup
from plugins.benchmarks.harness.imports.logged_groups import logged_groups
from plugins.benchmarks.harness.imports.logged_scores import logged_scores, renamed_filters
from plugins.benchmarks.harness.imports.sample_files import (
    RunFacts,
    arguments_of,
    facts_beside,
    facts_of,
    metrics_of,
    model_of,
    read_samples,
    results_beside,
    task_of,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row


@dataclass(frozen=True)
class _Logged:
    """A sample with log-likelihood requests.

    asked: arguments of each request. answers: log-likelihood of each request, and whether it is
    greedy.
    """

    place: str
    item: int
    target: Any
    asked: list[list[Any]]
    answers: list[tuple[float, bool]]
    metrics: dict[str, Any]

    @property
    def choices(self) -> list[str]:
        """Continuations of the choices."""
        # for mutual information, each choice is requested a second time without a prompt
        half = len(self.asked) // 2
        doubled = len(self.asked) % 2 == 0 and all(
            one[1] == other[1] and other[0] == ""
            for one, other in zip(self.asked[:half], self.asked[half:], strict=True)
        )
        return [str(each[1]) for each in (self.asked[:half] if doubled else self.asked)]


class HarnessSamples(EvalImporter):
    """Every request of a task, with all its answer filters."""

    kind = "samples"

    def read(self, path: Path) -> Iterator[Row]:
        """Requests of one task.

        Raises:
            TokenmartError: not a sample file, or it contradicts its own metrics.
        """
        task = task_of(path)
        facts = facts_beside(path, task)
        generations: dict[int, Row] = {}
        logged: dict[int, _Logged] = {}
        seen: set[tuple[int, str]] = set()
        common = {"task": task, "backend": "lm_eval", "shots": facts.shots, "chat": facts.chat}
        for place, sample in _named(path, facts):
            if "arguments" not in sample and "prompt_0" in sample:
                raise TokenmartError(
                    f"{place}: an answer as lm-evaluation-harness wrote it before 0.4 (--write_out)"
                    ", which lacks the continuations; run the task again with --log_samples of 0.4 "
                    "or later, or import its metrics (--format lm-eval)"
                )
            try:
                item, asked = sample["doc_id"], arguments_of(sample)
                if (item, str(sample["filter"])) in seen:
                    raise TokenmartError(
                        f"{place}: item {item} under the filter {sample['filter']!r} was given "
                        "before; keep one (nothing was imported)"
                    )
                seen.add((item, str(sample["filter"])))
                if len(asked[0]) == 2 and isinstance(asked[0][1], dict):
                    texts = sample["filtered_resps"][0]
                    fields = {**common, "item": item, **_asked(sample, asked)}
                    row = generations.setdefault(item, Row(place, fields))
                    answer = texts[0] if isinstance(texts, list) else texts
                    row.fields["answers"][str(sample["filter"])] = (
                        None if answer is None else str(answer)
                    )
                elif item not in logged:
                    logged[item] = _logged(place, item, sample, asked)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise TokenmartError(
                    f"{place}: not a sample of lm-evaluation-harness ({type(error).__name__}: "
                    f"{error}); expected a file of --log_samples"
                ) from error
        yield from generations.values()
        for place, fields in _scored(list(logged.values()), task):
            yield Row(place, {**common, **fields})

    def scores(self, path: Path) -> Iterator[dict[str, Any]]:
        """The task's own metrics, as logged: see `logged_scores`."""
        facts = facts_beside(path, task_of(path))
        yield from logged_scores(_named(path, facts), facts)

    def model(self, path: Path) -> str | None:
        """The checkpoint that the file of results next to the samples names."""
        return model_of(path)

    def version(self, path: Path) -> str | None:
        """Version of the task in the file of results next to the samples."""
        return facts_beside(path, task_of(path)).version

    def longest(self, path: Path) -> int | None:
        """`max_length` in the file of results next to the samples."""
        return facts_beside(path, task_of(path)).longest

    def groups(self, files: Sequence[Path]) -> Iterator[ImportedGroup]:
        """The groups in the files of results next to the samples: see `logged_groups`."""
        beside = dict(found for file in files if (found := results_beside(file)) is not None)
        for path, results in beside.items():
            for logged in logged_groups(results):
                facts = {task: facts_of(results, task) for task in logged.group.tasks}
                runs = {task: run_name(each.shots, each.chat) for task, each in facts.items()}
                yield ImportedGroup(str(path), logged, runs)


def _named(path: Path, facts: RunFacts) -> list[tuple[str, dict[str, Any]]]:
    """The samples of a file, with the filter names of the file of results."""
    samples = list(read_samples(path))
    names = renamed_filters([sample for _, sample in samples], facts)
    return [
        (place, {**sample, "filter": names.get(sample["filter"], sample["filter"])})
        for place, sample in samples
    ]


def _logged(place: str, item: int, sample: dict[str, Any], asked: list[list[Any]]) -> _Logged:
    answers = [
        (float(each[0]), str(each[1]) == "True") if isinstance(each, list) else (float(each), False)
        for each in sample["filtered_resps"]
    ]
    if len(answers) != len(asked):
        raise ValueError(f"{len(asked)} requests, {len(answers)} responses")
    highest = max((score for score, _ in answers), default=0.0)
    if highest > ROUNDING:
        raise TokenmartError(
            f"{place}: a log-likelihood is {highest:g}, above 0: no probability is above 1; run "
            "it again (nothing was imported)"
        )
    if any(score != score for score, _ in answers):
        raise TokenmartError(
            f"{place}: a log-likelihood is NaN: the model's logits overflowed; run it again in "
            "another dtype (nothing was imported)"
        )
    return _Logged(place, item, sample["target"], asked, answers, metrics_of(sample))


def _asked(sample: dict[str, Any], asked: list[list[Any]]) -> dict[str, Any]:
    target = sample["target"]
    if isinstance(target, str) and target.startswith("["):
        try:
            target = ast.literal_eval(target)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            target = [target]
    return {
        "request_type": "generate_until",
        "context": asked[0][0],
        "gold": [str(each) for each in target] if isinstance(target, list) else [str(target)],
        "answers": {},
        # the task's own code compares the texts, so its logged metrics are used
        "options": {"generation": asked[0][1], "exact_match": None},
    }


def _scored(samples: list[_Logged], task: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Fields of each request, with file and line."""
    chosen = [each for each in samples if len(each.asked[0]) > 1 and len(each.choices) > 1]
    # such a task has metrics of its own, which are in the file
    shares = any(_is_share(each.metrics.get("acc")) for each in chosen)
    golds = (
        gold_choices(
            [
                ChoiceSample(
                    each.place,
                    each.target,
                    each.choices,
                    [score for score, _ in each.answers[: len(each.choices)]],
                    each.metrics,
                )
                for each in chosen
            ],
            task,
        )
        if chosen and not shares
        else None
    )
    right = dict(zip((each.item for each in chosen), golds.golds, strict=True)) if golds else {}
    for sample in samples:
        if len(sample.asked[0]) == 1:
            yield sample.place, _rolling(sample)
            continue
        choices = sample.choices
        if len(choices) == 1:
            _refuse_other_accuracy(sample)
        for number, (arguments, answer) in enumerate(
            zip(sample.asked, sample.answers, strict=True)
        ):
            choice = number % len(choices)
            many = len(choices) > 1
            yield (
                sample.place,
                {
                    "item": sample.item,
                    "request_type": "multiple_choice" if many else "loglikelihood",
                    "choice": choice,
                    "unconditional": number >= len(choices),
                    "context": arguments[0],
                    "continuation": arguments[1],
                    "reference": choice_text(str(arguments[1]), golds.delimiter)
                    if golds and many
                    else None,
                    "is_gold": (choice in right[sample.item] if golds else None) if many else True,
                    "options": {"own_metrics": _counts_itself(sample)},
                    "loglikelihood": min(answer[0], 0.0),
                    "is_greedy": answer[1],
                },
            )


def _is_share(accuracy: Any) -> bool:
    return isinstance(accuracy, float) and 0 < accuracy < 1


def _counts_itself(sample: _Logged) -> bool:
    """Whether a sample's metrics can't be computed from its log-likelihoods alone."""
    accuracy = sample.metrics.get("acc")
    return accuracy not in (0, 1) or (len(sample.choices) > 1 and len(set(sample.choices)) == 1)


def _refuse_other_accuracy(sample: _Logged) -> None:
    """A single continuation is right if it is greedy; other rules aren't supported."""
    logged = sample.metrics.get("acc")
    if logged is not None and logged != float(sample.answers[0][1]):
        raise TokenmartError(
            f"{sample.place}: acc is {logged!r}, but its continuation is "
            f"{'' if sample.answers[0][1] else 'not '}greedy: the task counts in its own way; "
            "take its metrics as they are (--format lm-eval)"
        )


def _rolling(sample: _Logged) -> dict[str, Any]:
    """A text scored without a prompt; numbers of words and bytes as in the task."""
    text = str(sample.asked[0][0])
    counts = {}
    for metric, unit in (("word_perplexity", "words"), ("byte_perplexity", "bytes"),
                         ("bits_per_byte", "bytes")):  # fmt: skip
        pair = sample.metrics.get(metric)
        if isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int:
            counts[unit] = pair[1]
    return {
        "item": sample.item,
        "request_type": "loglikelihood_rolling",
        "continuation": text,
        "reference": text,
        "is_gold": True,
        "loglikelihood": min(sample.answers[0][0], 0.0),
        **counts,
    }
