"""Run in a clone of lm-evaluation-harness: load a task, check its items, score some of them.

`python -c <this file> TASK LIMIT OUT`, in the clone; a LIMIT of 0 runs all samples. This file
imports nothing of Tokenmart, because it runs in the harness's Python environment.
"""

from __future__ import annotations

import json
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _tasks(tree: dict[Any, Any]) -> Iterator[Any]:
    """The tasks of a task, a group, or a group of groups."""
    for value in tree.values():
        if isinstance(value, dict):
            yield from _tasks(value)
        else:
            yield value[1] if isinstance(value, tuple) else value


def _item(task: Any, doc: Any) -> dict[str, Any]:
    """Prompt, right answers and choices of a document, as texts."""
    prompt, target = task.doc_to_text(doc), task.doc_to_target(doc)
    choices: list[str] = []
    if task.OUTPUT_TYPE == "multiple_choice":
        choices = [str(choice) for choice in task.doc_to_choice(doc)]
    targets = target if isinstance(target, list) else [target]
    wrong = None
    if task.OUTPUT_TYPE == "multiple_choice" and not isinstance(prompt, int):
        wrong = _wrong_choices(targets, choices)
    elif task.OUTPUT_TYPE != "loglikelihood_rolling":
        wrong = _wrong_texts(prompt, targets, doc)
    answers = [
        choices[value] if isinstance(value, int) and choices and not wrong else str(value)
        for value in targets
    ]
    # a number instead of a prompt: the choices are the prompts, as in winogrande
    shown = prompt if isinstance(prompt, str) else None
    if task.OUTPUT_TYPE == "loglikelihood_rolling":
        shown = None
    return {"prompt": shown, "answers": answers, "choices": choices, "wrong": wrong}


def _wrong_choices(targets: list[Any], choices: list[str]) -> str | None:
    """Reasons why a multiple-choice item is unusable."""
    if len(choices) < 2 or not all(choice.strip() for choice in choices):
        return f"has the choices {choices!r}, expected two or more, none empty"
    known = {*range(len(choices)), *choices}
    bad = [target for target in targets if target not in known]
    if bad or not targets:
        answer = bad[0] if bad else None
        return (
            f"the right answer is {answer!r}, expected one of {len(choices)} choices or its index"
        )
    return None


def _wrong_texts(prompt: Any, targets: list[Any], doc: Any) -> str | None:
    """Reasons why an item with one answer is unusable: templates write a missing field as
    `None`.
    """
    hollow = isinstance(doc, dict) and any(value is None for value in doc.values())
    nothing = ("None",) if hollow else ()
    if isinstance(prompt, str) and prompt.strip() in nothing:
        return "has no prompt"
    if not targets or any(each is None or str(each).strip() in nothing for each in targets):
        return "has no right answer"
    return None


def _items(tasks: list[Any]) -> list[dict[str, Any]]:
    """All items of some tasks; raises ValueError with the first invalid ones."""
    items = []
    for task in tasks:
        for doc in task.eval_docs:
            try:
                items.append(_item(task, doc))
            except Exception as error:
                raise ValueError(f"sample {len(items)}: {type(error).__name__}: {error}") from error
    wrong = [(at, item) for at, item in enumerate(items) if item["wrong"]]
    if wrong:
        raise ValueError(
            f"{len(wrong)} of {len(items)} samples are wrong: "
            + "; ".join(
                f"sample {at} ({str(item['prompt'])[-60:]!r}): {item['wrong']}"
                for at, item in wrong[:2]
            )
        )
    return items


def prompt_notes(task: Any, shots: int, in_chat: bool = False) -> list[str]:
    """What hardly anybody wants of a task's prompts, one sentence each.

    Args:
        task: of the harness, with its documents.
        shots: number of few-shot examples in a prompt.
        in_chat: whether a chat template ends the prompt instead of the task's delimiter.
    """
    texts = []
    docs = list(task.eval_docs)
    spaced = 0 if in_chat else sum(_has_two_spaces(task, doc) for doc in docs)
    if spaced:
        texts.append(
            f"{spaced} of {len(docs)} prompts end with white space, and the answer begins with it: "
            "models see both; remove the one of doc_to_text, or set `target_delimiter: ''`"
        )
    config = getattr(task, "config", None)
    if config is not None and config.process_results is None:
        metrics = getattr(task, "_metric_fn_list", {})
        texts += [
            f"metric_list: {name} is no metric of the harness, and has no value"
            for name, function in metrics.items()
            if function is None
        ]
    if shots:
        scored = {_text(doc) for doc in docs}
        examples = [_text(doc) for doc in task.fewshot_docs()]
        if both := sum(example in scored for example in examples):
            texts.append(
                f"{both} of {len(examples)} few-shot examples are scored items, so prompts contain "
                "answers of others; set fewshot_split to another split"
            )
    return texts


def _text(doc: Any) -> str:
    return json.dumps(doc, sort_keys=True, default=str)


def _has_two_spaces(task: Any, doc: Any) -> bool:
    config = getattr(task, "config", None)
    if task.OUTPUT_TYPE not in ("multiple_choice", "loglikelihood") or config is None:
        return False
    prompt = task.doc_to_text(doc)
    if not isinstance(prompt, str) or not prompt[-1:].isspace():
        return False
    answer = task.doc_to_target(doc)
    if task.OUTPUT_TYPE == "multiple_choice":
        answer = task.doc_to_choice(doc)[0]
    return f"{config.target_delimiter}{answer}"[:1].isspace()


def _model() -> Any:
    """A model that returns constants; the harness's own dummy model needs a tokenizer from the
    hub.
    """
    from lm_eval.api.model import LM

    class Parrot(LM):  # type: ignore[misc]
        def loglikelihood(self, requests: Any, **_: Any) -> Any:
            texts = [request.args[1] for request in requests]
            return [(-float(zlib.crc32(text.encode()) % 1000 + 1) / 50, False) for text in texts]

        def loglikelihood_rolling(self, requests: Any, **_: Any) -> Any:
            return [-float(len(request.args[0]) + 1) for request in requests]

        def generate_until(self, requests: Any, **_: Any) -> Any:
            return [" " + request.args[0].split()[-1] for request in requests]

    return Parrot()


def check(name: str, limit: int) -> dict[str, Any]:
    """Result of running a task in the harness; `failed` and `error` if it fails."""
    record: dict[str, Any] = {"failed": "import"}
    try:
        import lm_eval
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager, get_task_dict

        record |= {"failed": "load", "harness": str(Path(str(lm_eval.__file__)).resolve())}
        manager = TaskManager()
        tasks = list(_tasks(get_task_dict([name], manager)))
        record["failed"] = "items"
        items = _items(tasks)
        record |= {"items": items, "types": sorted({task.OUTPUT_TYPE for task in tasks})}
        notes = [prompt_notes(task, int(task.config.num_fewshot or 0)) for task in tasks]
        record["notes"] = [note for each in notes for note in each]
        record["failed"] = "run"
        scored = simple_evaluate(
            model=_model(),
            tasks=[name],
            task_manager=manager,
            limit=limit or None,
            bootstrap_iters=0,
            log_samples=False,
        )
        values = scored["results"].get(name, {}) if scored else {}
        record["results"] = {key: value for key, value in values.items() if "," in key}
        record["failed"] = None
    except Exception as error:
        record |= {
            "error": f"{type(error).__name__}: {error}",
            "trace": traceback.format_exc().splitlines()[-6:],
        }
    return record


if __name__ == "__main__":
    asked, most, out = sys.argv[1:4]
    Path(out).write_text(json.dumps(check(asked, int(most)), default=str), encoding="utf-8")
