"""Requests of a task as rows of `eval_items`: prompts, choices and right answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from plugins.benchmarks.harness.stored_items import lengths_of
from plugins.benchmarks.harness.tasks import EvalRequest, EvalTask
from plugins.benchmarks.refusal import unknown
from plugins.benchmarks.schema import EVAL_ITEMS

if TYPE_CHECKING:
    import pyarrow as pa

SUBJECT_FIELDS = ("subject", "category", "topic")
CLUSTER_FIELDS = ("passage", "article", "story", "paragraph", "document")
"""Usual names of the fields for a document's subject, and for the text it shares with others; the
first one that exists is used."""


def item_rows(task: EvalTask, subject: str | None = None, cluster: str | None = None) -> pa.Table:
    """The requests of a task in the schema of `eval_items`.

    Args:
        task: with its requests.
        subject: field that contains the subject; by default one of the usual names.
        cluster: field with text that several documents share; by default one of the usual names.

    Raises:
        TokenmartError: the documents have no such field.
    """
    import pyarrow as pa

    source = f"lm_eval {version('lm_eval')}"
    rows = []
    for unit in task.units:
        for segment, request in enumerate(unit.requests):
            doc = request.instance.doc
            about = _field(doc, subject, SUBJECT_FIELDS, "--subject")
            shared = _field(doc, cluster, CLUSTER_FIELDS, "--cluster")
            item = int(request.instance.doc_id)
            reference, described = _described(task.task, request)
            rows.append(
                {
                    "doc_id": unit.number,
                    "segment": segment,
                    "task": task.name,
                    "shots": task.shots,
                    "item": item,
                    "cluster": str(item) if shared is None else _hash(shared),
                    "subject": about,
                    "repeat": request.repeat,
                    "reference": reference,
                    **lengths_of(reference),
                    **described,
                    "unit_sha256": unit.sha256,
                    "source": source,
                }
            )
    return pa.Table.from_pylist(rows, schema=EVAL_ITEMS)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _field(doc: Any, named: str | None, usual: Sequence[str], option: str) -> str | None:
    fields = doc if isinstance(doc, Mapping) else {}
    if named is not None and named not in fields:
        raise unknown(option, named, map(str, fields))
    for name in [named] if named else usual:
        if isinstance(value := fields.get(name), str | int) and value != "":
            return str(value)
    return None


def _described(task: Any, request: EvalRequest) -> tuple[str, dict[str, Any]]:
    """The reference of a request, and the columns that depend on the request type."""
    arguments, number = request.arguments, int(request.instance.idx)
    kind = getattr(task, "OUTPUT_TYPE", None) or request.kind
    columns: dict[str, Any] = {
        "request_type": kind,
        "choice": 0,
        "unconditional": False,
        "is_gold": None,
        "gold": None,
        "context": "" if len(arguments) == 1 else str(arguments[0]),
        "continuation": "",
        "options": "{}",
    }
    if request.kind == "generate_until":
        gold = _gold_texts(task, request.instance.doc)
        columns |= {
            "gold": json.dumps(gold, ensure_ascii=False),
            "options": json.dumps({"generation": arguments[1]}, default=str),
        }
        return (gold[0] if gold else ""), columns
    text = str(arguments[-1])
    columns |= {
        "continuation": text,
        "is_gold": True,
        "options": json.dumps({"own_metrics": _counts_itself(task)}),
    }
    if kind == "loglikelihood_rolling":
        return text, columns
    choices, gold_choices = _choices(task, request.instance.doc)
    if choices:
        choice = number % len(choices)
        columns |= {
            "request_type": "multiple_choice",
            "choice": choice,
            "unconditional": number >= len(choices),
            "is_gold": choice in gold_choices,
        }
        if not getattr(task, "multiple_input", False):
            return choices[choice], columns
        # the choices are in the prompts, and one continuation is scored after each
    else:
        columns["choice"] = number
    return text.lstrip() or text, columns


def _counts_itself(task: Any) -> bool:
    """Whether the harness's metrics of a task can't be computed from log-likelihoods and choices
    alone.

    A task with its own `process_results` defines its own values. If the choices are in the prompts,
    the harness normalises by texts that aren't scored.
    """
    from lm_eval.api.task import ConfigurableTask, MultipleChoiceTask, PerplexityTask

    if callable(task.get_config("process_results")) or getattr(task, "multiple_input", False):
        return True
    harness_s_own = {
        kind.process_results for kind in (ConfigurableTask, MultipleChoiceTask, PerplexityTask)
    }
    return type(task).process_results not in harness_s_own


def _choices(task: Any, doc: Any) -> tuple[list[str], list[int]]:
    """Choices of a multiple-choice document and the right ones among them; empty for none."""
    kind = getattr(task, "OUTPUT_TYPE", None)
    if kind != "multiple_choice":
        old = type(task).__mro__ and any(
            c.__name__ == "MultipleChoiceTask" for c in type(task).__mro__
        )
        return (list(map(str, doc["choices"])), [int(doc["gold"])]) if old else ([], [])
    choices = [str(choice) for choice in task.doc_to_choice(doc)]
    gold = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    listed = gold if isinstance(gold, list) else [gold]
    indices = [choices.index(g) if isinstance(g, str) and g in choices else g for g in listed]
    return choices, [int(g) for g in indices if isinstance(g, int)]


def _gold_texts(task: Any, doc: Any) -> list[str]:
    gold = task.doc_to_target(doc)
    if getattr(task.config, "doc_to_choice", None) is not None:
        gold = task.doc_to_choice(doc)[gold]
    return [str(each) for each in gold] if isinstance(gold, list) else [str(gold)]
