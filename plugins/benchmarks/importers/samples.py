"""Samples of lm-evaluation-harness as benchmark answers: log-likelihoods and generated texts.

`--log_samples` writes one file per task. Few-shot examples and chat are read from the
`results_<date>.json` in the same folder. Up to 0.4.8, requests for mutual information repeat the
choices without a prompt and without their delimiter; later ones keep the delimiter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import ROUNDING
from plugins.benchmarks.harness.imports.gold_choices import gold_choices, refuse_other_accuracy
from plugins.benchmarks.harness.imports.imported_answers import EvalImporter
from plugins.benchmarks.harness.imports.logged_scores import logged_scores
from plugins.benchmarks.harness.imports.sample_files import (
    arguments_of,
    facts_beside,
    metrics_of,
    model_of,
    read_samples,
    task_of,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row


@dataclass(frozen=True)
class _Logged:
    """A sample with log-likelihood requests.

    asked: arguments of each request. answers: log-likelihood of each request, and whether it is
    greedy. choices: continuations of the choices. delimiter: what each continuation begins with
    before its choice, where the requests show it; None where they don't.
    """

    place: str
    item: int
    target: Any
    asked: list[list[Any]]
    answers: list[tuple[float, bool]]
    metrics: dict[str, Any]
    choices: list[str]
    delimiter: str | None

    def choice_text(self, choice: int) -> str:
        """A choice without its delimiter; without the white space before it if that is unknown."""
        text = self.choices[choice]
        if self.delimiter is not None:
            return text.removeprefix(self.delimiter)
        return text.lstrip() or text


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
        for place, sample in read_samples(path):
            try:
                item, asked = sample["doc_id"], arguments_of(sample)
                if (item, str(sample["filter"])) in seen:
                    raise _refused(place, f"item {item} was given before", "item-twice")
                seen.add((item, str(sample["filter"])))
                if len(asked[0]) == 2 and isinstance(asked[0][1], dict):
                    texts = sample["filtered_resps"][0]
                    fields = {**common, "item": item, **_generation(sample, asked)}
                    row = generations.setdefault(item, Row(place, fields))
                    answer = texts[0] if isinstance(texts, list) else texts
                    row.fields["answers"][str(sample["filter"])] = (
                        None if answer is None else str(answer)
                    )
                elif item not in logged:
                    logged[item] = _logged(place, item, sample, asked)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise _refused(
                    place,
                    f"not a sample of lm-evaluation-harness since 0.4 ({type(error).__name__}: "
                    f"{error}); expected a file of --log_samples",
                    "no-sample",
                ) from error
        yield from generations.values()
        for each in logged.values():
            for fields in _fields(each, task):
                yield Row(each.place, {**common, **fields})

    def scores(self, path: Path) -> Iterator[dict[str, Any]]:
        """The task's own metrics, as logged: see `logged_scores`."""
        yield from logged_scores(list(read_samples(path)), facts_beside(path, task_of(path)))

    def model(self, path: Path) -> str | None:
        """The checkpoint that the file of results next to the samples names."""
        return model_of(path)

    def version(self, path: Path) -> str | None:
        """Version of the task in the file of results next to the samples."""
        return facts_beside(path, task_of(path)).version


def _refused(place: str, what: str, code: str) -> TokenmartError:
    return TokenmartError(f"{place}: {what} (nothing was imported)", code=code, where=place)


def _logged(place: str, item: int, sample: dict[str, Any], asked: list[list[Any]]) -> _Logged:
    answers = [
        (float(each[0]), str(each[1]) == "True") if isinstance(each, list) else (float(each), False)
        for each in sample["filtered_resps"]
    ]
    if len(answers) != len(asked):
        raise ValueError(f"{len(asked)} requests, {len(answers)} responses")
    if any(score != score or score > ROUNDING for score, _ in answers):
        found = [score for score, _ in answers]
        raise _refused(
            place, f"log-likelihoods {found}, expected numbers of at most 0", "log-likelihood"
        )
    delimiter = _unconditional_delimiter(asked)
    requests = asked if delimiter is None else asked[: len(asked) // 2]
    return _Logged(
        place=place,
        item=item,
        target=sample["target"],
        asked=asked,
        answers=answers,
        metrics=metrics_of(sample),
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


def _fields(sample: _Logged, task: str) -> Iterator[dict[str, Any]]:
    """Fields of each request of an item."""
    if len(sample.asked[0]) == 1:
        yield _rolling(sample)
        return
    count = len(sample.choices)
    accuracy = sample.metrics.get("acc")
    golds: list[int] | None = [0]
    if count > 1:
        # of several true answers, acc may be their share of probability: a task's own metric
        golds = None
        if not (isinstance(accuracy, float) and 0 < accuracy < 1):
            golds = gold_choices(sample.place, sample.target, sample.choices, task)
            scores = [score for score, _ in sample.answers[:count]]
            refuse_other_accuracy(sample.place, scores, golds, sample.metrics, task)
    elif accuracy is not None and accuracy != float(sample.answers[0][1]):
        raise _refused(
            sample.place,
            f"acc is {accuracy!r}, greedy {sample.answers[0][1]}: the task has its own rule",
            "other-accuracy",
        )
    for number, (arguments, answer) in enumerate(zip(sample.asked, sample.answers, strict=True)):
        choice = number % count
        yield {
            "item": sample.item,
            "request_type": "multiple_choice" if count > 1 else "loglikelihood",
            "choice": choice,
            "unconditional": number >= count,
            "context": arguments[0],
            "continuation": arguments[1],
            "reference": sample.choice_text(choice) if count > 1 else None,
            "is_gold": None if golds is None else choice in golds,
            "options": {"own_metrics": accuracy not in (0, 1)},
            "loglikelihood": min(answer[0], 0.0),
            "is_greedy": answer[1],
        }


def _generation(sample: dict[str, Any], asked: list[list[Any]]) -> dict[str, Any]:
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
