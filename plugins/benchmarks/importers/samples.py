"""Samples of lm-evaluation-harness as benchmark answers: log-likelihoods and generated texts.

The files of `--log_samples`, one `samples_<task>_<date>.jsonl` a task. They don't say the choices
without their delimiter: spaces at the beginning are taken for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.imported_answers import EvalImporter
from plugins.benchmarks.importers.lm_eval import task_of
from plugins.benchmarks.importers.token_logprobs import json_lines
from warehouse.errors import TokenmartError
from warehouse.importers.interface import Row


class HarnessSamples(EvalImporter):
    """Every request of a task under all its answer filters."""

    kind = "samples"

    def read(self, path: Path) -> Iterator[Row]:
        """Requests of one task.

        Raises:
            TokenmartError: not a file of samples.
        """
        task = task_of(path)
        generations: dict[int, Row] = {}
        seen: set[int] = set()
        for place, sample in json_lines(path):
            try:
                asked = [list(arguments.values()) for arguments in sample["arguments"].values()]
                item, answers = int(sample["doc_id"]), sample["filtered_resps"]
                common = {"task": task, "item": item, "backend": "lm_eval"}
                if len(asked[0]) == 2 and isinstance(asked[0][1], dict):
                    texts = answers[0] if isinstance(answers[0], list) else answers
                    row = generations.setdefault(item, Row(place, {**common, **_asked(sample)}))
                    row.fields["answers"][str(sample["filter"])] = str(texts[0])
                elif item not in seen:
                    seen.add(item)
                    for fields in _scored(sample, asked):
                        yield Row(place, {**common, **fields})
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise TokenmartError(
                    f"{place}: not a sample of lm-evaluation-harness ({type(error).__name__}: "
                    f"{error}); expected a file of --log_samples"
                ) from error
        yield from generations.values()


def _asked(sample: dict[str, Any]) -> dict[str, Any]:
    gold = _literal(sample["target"])
    return {
        "request_type": "generate_until",
        "context": next(iter(sample["arguments"].values()))["arg_0"],
        "gold": [str(each) for each in gold] if isinstance(gold, list) else [str(sample["target"])],
        "answers": {},
    }


def _scored(sample: dict[str, Any], asked: list[list[str]]) -> Iterator[dict[str, Any]]:
    responses = sample["filtered_resps"]
    if len(asked[0]) == 1:
        text = asked[0][0]
        yield {
            "request_type": "loglikelihood_rolling",
            "continuation": text,
            "reference": text,
            "is_gold": True,
            "loglikelihood": float(responses[0]),
        }
        return
    half = len(asked) // 2
    # mutual information asks for each choice again, without a prompt
    doubled = (
        half > 0
        and all(
            one[1] == other[1] and other[0] == ""
            for one, other in zip(asked[:half], asked[half:], strict=False)
        )
        and len(asked) == 2 * half
    )
    choices = [each[1] for each in (asked[:half] if doubled else asked)]
    gold = _gold(sample["target"], choices)
    for number, (arguments, response) in enumerate(zip(asked, responses, strict=True)):
        choice = number % len(choices)
        yield {
            "request_type": "multiple_choice" if len(choices) > 1 else "loglikelihood",
            "choice": choice,
            "unconditional": number >= len(choices),
            "context": arguments[0],
            "continuation": arguments[1],
            "is_gold": choice in gold if len(choices) > 1 else True,
            "loglikelihood": min(float(response[0]), 0.0),
            "is_greedy": str(response[1]) == "True",
        }


def _gold(target: Any, choices: list[str]) -> list[int]:
    """Which choices are right; the target is an index, a list of them, or a choice's text."""
    found = _literal(target)
    listed = found if isinstance(found, list) else [found]
    texts = [choice.strip() for choice in choices]
    return [
        texts.index(each.strip()) if isinstance(each, str) else int(each)
        for each in listed
        if not isinstance(each, str) or each.strip() in texts
    ]


def _literal(text: Any) -> Any:
    """What a value was before the harness wrote it as text."""
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError):
        return text
