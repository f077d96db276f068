"""Read samples of lm-evaluation-harness (`--log_samples`), and results next to them.

A line is one document after one answer filter (since 0.4.7).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugins.benchmarks.json_files import parse_json, text_lines
from plugins.benchmarks.refusal import refused
from warehouse.files import read_text

_NAME = re.compile(
    r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d{2}-\d{2}T\d{2}[-:]\d{2}[-:]\d{2}(\.\d+)?))?"
    r"\.jsonl"
)


@dataclass(frozen=True)
class RunFacts:
    """Facts about the prompts from the file of results next to the samples.

    Attributes:
        shots: number of few-shot examples; None if unknown.
        chat: hash of the chat template, system instruction and turns; empty for plain prompts.
        values: `metric,filter` → value of the task, without standard errors.
        better: metric → whether higher values are better.
        model: checkpoint and commit of its weights; empty if unknown.
        version: of the task; empty if unknown.
    """

    shots: int | None = None
    chat: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    better: Mapping[str, bool] = field(default_factory=dict)
    model: str = ""
    version: str = ""


def task_of(path: Path) -> str:
    """The task of a sample file, from the file name.

    Raises:
        TokenmartError: the file name is not one of the harness.
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        raise refused(path, "expected samples_<task>_<date>.jsonl of --log_samples", "no-samples")
    return name["task"]


@dataclass(frozen=True)
class Sample:
    """One document after one answer filter, as the harness logged it, with file and line."""

    place: str
    item: int
    filter: str
    content: Mapping[str, Any]

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics that the harness logged."""
        return {
            str(name): self.content[name]
            for name in self.content["metrics"]
            if name in self.content
        }

    @property
    def arguments(self) -> list[list[Any]]:
        """Of each request: prompt and continuation, prompt and settings, or a text alone."""
        return [list(request.values()) for request in self.content["arguments"].values()]


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a file.

    Raises:
        TokenmartError: the file can't be read, or a line is not a sample.
    """
    for place, line in text_lines(path):
        content = parse_json(line, place)
        item = content.get("doc_id") if isinstance(content, dict) else None
        if (
            type(item) is not int
            or not 0 <= item < 2**31
            or not {"filter", "metrics"} <= {*content}
        ):
            what = "no sample of lm-evaluation-harness 0.4.7 or later (doc_id, filter, metrics)"
            raise refused(place, what, "no-sample")
        yield Sample(place, item, str(content["filter"]), content)


def run_name(shots: int | None, chat: str) -> str:
    """Settings of a task's prompts, as part of a folder name.

    Args:
        shots: number of few-shot examples in a prompt; None if unknown.
        chat: identifies the prompt format of a conversation; empty for plain prompts.
    """
    known = [] if shots is None else [f"{shots}shot"]
    return "-".join([*known, *([f"chat{chat}"] if chat else [])])


def facts_beside(path: Path, task: str) -> RunFacts:
    """Facts about a run, from the `results_<date>.json` next to its samples, if there is one.

    Raises:
        TokenmartError: that file can't be read.
    """
    name = _NAME.fullmatch(path.name)
    # `--output_path out.json` writes out_<date>.json
    for results in sorted(path.parent.glob("*.json")):
        if name and name["date"] and results.name.endswith(f"_{name['date']}.json"):
            tree = parse_json(read_text(results), str(results))
            return facts_of(tree, task) if isinstance(tree, dict) else RunFacts()
    return RunFacts()


def facts_of(results: Mapping[str, Any], task: str) -> RunFacts:
    """Facts about a task's run in the content of a file of results."""
    shots, better, values = (
        part_of(results, name, task) for name in ("n-shot", "higher_is_better", "results")
    )
    version = part_of(results, "versions", task)  # often 0
    put = [results.get(key) for key in ("chat_template_sha", "system_instruction_sha")]
    chat = ""
    if any(put):
        parts = json.dumps([*put, bool(results.get("fewshot_as_multiturn"))])
        chat = hashlib.sha256(parts.encode()).hexdigest()[:8]
    return RunFacts(
        shots=shots if isinstance(shots, int) else None,
        chat=chat,
        values={
            key: value
            for key, value in (values.items() if isinstance(values, dict) else ())
            if "," in key and not key.partition(",")[0].endswith("_stderr")
        },
        better=better if isinstance(better, dict) else {},
        model=" ".join(each for each in (checkpoint_name(results), weights_of(results)) if each),
        version="" if version is None else str(version),
    )


_NAMES = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Arguments that name a model, in the order in which the harness takes one for its name."""

_SETTINGS = {
    "gen_kwargs": None,
    "random_seed": 0,
    "numpy_seed": 1234,
    "torch_seed": 1234,
    "fewshot_seed": 1234,
}
"""Settings of a run in which results of one checkpoint can differ → their default."""


def checkpoint_name(results: Mapping[str, Any]) -> str | None:
    """The checkpoint that a file of results is of: `org/model,revision=step5`.

    Two results are of one checkpoint only if its name, all model arguments of the harness, its
    backend, its settings of generation and its seeds are equal. None where nothing
    names a model.
    """
    config = results.get("config")
    config = config if isinstance(config, dict) else {}
    given = config.get("model_args")
    if isinstance(given, str):
        given = dict(part.split("=", 1) for part in given.split(",") if "=" in part)
    arguments = given if isinstance(given, Mapping) else {}
    arguments = {str(key).strip(): str(value).strip() for key, value in arguments.items()}
    stated = results.get("model_name")
    name = stated if isinstance(stated, str) and stated else None
    name = name or next((arguments[key] for key in _NAMES if arguments.get(key)), None)
    if not name:
        return None
    backend = str(config.get("model") or "hf")
    if not backend.startswith(("hf", "huggingface")):
        arguments["backend"] = backend
    for key, default in _SETTINGS.items():
        if config.get(key) not in (None, default, {}):
            arguments[key] = str(config[key])
    # the name itself stands in the arguments, too
    others = [f"{key}={value}" for key, value in sorted(arguments.items()) if value != name]
    return ",".join([name.rstrip("/"), *others])


def weights_of(results: Mapping[str, Any]) -> str:
    """Commits of a model's weights that a file of results states; empty for a local folder."""
    config = results.get("config")
    config = config if isinstance(config, dict) else {}
    shas = (config.get(key) or results.get(key) for key in ("model_sha", "peft_sha", "delta_sha"))
    return " ".join(str(sha) for sha in shas if sha)


def part_of(results: Mapping[str, Any], name: str, task: str) -> Any:
    """Entry of a task or group in one part of a file of results; None if there is none."""
    part = results.get(name)
    return part.get(task) if isinstance(part, dict) else None
