"""Tasks of lm-evaluation-harness, with their requests grouped into units.

The harness builds documents, prompts and choices. Every task that it can load, from YAML or Python,
can be run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plugins.benchmarks.harness.chat import Chat
from plugins.benchmarks.harness.stored_items import UNIT_ITEMS, condition_of
from plugins.benchmarks.refusal import refused
from warehouse.errors import TokenmartError, did_you_mean

FEWSHOT_SEED = 1234
"""Default seed of the harness, so that the few-shot examples are the same."""


@dataclass(frozen=True)
class EvalRequest:
    """One request of the harness.

    Attributes:
        instance: the harness's `Instance`, which stores responses and filtered responses.
        repeat: number of the generation, if an instance has several.
    """

    instance: Any
    repeat: int = 0

    @property
    def kind(self) -> str:
        """loglikelihood, loglikelihood_rolling or generate_until."""
        return str(self.instance.request_type)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Prompt and continuation, prompt and settings, or a text alone."""
        return tuple(self.instance.args)


@dataclass(frozen=True)
class EvalUnit:
    """Requests that are stored together; `sha256` covers everything their scores depend on."""

    number: int
    requests: tuple[EvalRequest, ...]

    @property
    def items(self) -> list[int]:
        """Numbers of its documents in the task, in order."""
        return sorted({int(request.instance.doc_id) for request in self.requests})

    @property
    def sha256(self) -> str:
        """Hash of the requests, in their order."""
        described = [(r.kind, r.arguments, r.repeat) for r in self.requests]
        return hashlib.sha256(json.dumps(described, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class EvalTask:
    """A task with its requests, in units.

    Attributes:
        name: as in the harness.
        condition: partition key: name, number of few-shot examples, limit, and chat if there is
            one, with a hash of its prompts.
        shots: number of few-shot examples in a prompt.
        task: the harness's own object.
        units: by number.
    """

    name: str
    condition: str
    shots: int
    task: Any
    units: tuple[EvalUnit, ...]


def units_of(instances: Sequence[Any]) -> tuple[EvalUnit, ...]:
    """Group the instances of a task into units of complete documents; number repeated instances."""
    seen: dict[int, int] = {}
    grouped: dict[int, list[EvalRequest]] = {}
    for instance in instances:
        repeat = seen[id(instance)] = seen.get(id(instance), -1) + 1
        number = int(instance.doc_id) // UNIT_ITEMS
        grouped.setdefault(number, []).append(EvalRequest(instance, repeat))
    return tuple(
        EvalUnit(number, tuple(sorted(requests, key=lambda r: (r.instance.doc_id, r.instance.idx))))
        for number, requests in sorted(grouped.items())
    )


@contextmanager
def quiet_harness() -> Iterator[None]:
    """Show only errors of the harness, which otherwise warns about every default it uses."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def task_manager(names: Sequence[str], include_path: Sequence[Path]) -> Any:
    """The harness's registry of tasks.

    Reading the harness's thousands of YAML files takes 15 seconds, so they are read only if a name
    is not found in the given folders.

    Raises:
        TokenmartError: the harness is not installed, or a folder is missing.
    """
    for path in include_path:
        if not path.is_dir():
            raise refused(f"--include-path {path}", "no such folder", "no-folder")
    try:
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise refused(
            "lm-evaluation-harness",
            f"not installed (no module {error.name}); run `make setup`, or `pip install -c "
            "requirements.lock -e '.[eval]'`",
            "not-installed",
        ) from error
    folders = [str(path) for path in include_path]
    ours = TaskManager(include_path=folders, include_defaults=False)
    if all(_is_file(name) or ours.match_tasks([name]) for name in names):
        return ours
    return TaskManager(include_path=folders)


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def load_tasks(names: Sequence[str], include_path: Sequence[Path] = ()) -> list[EvalTask]:
    """The tasks of `load_tasks_and_groups`."""
    return load_tasks_and_groups(names, include_path)[0]


def load_tasks_and_groups(
    names: Sequence[str],
    include_path: Sequence[Path] = (),
    *,
    shots: int | None = None,
    limit: int | None = None,
) -> tuple[list[EvalTask], list[Any]]:
    """Load tasks, groups or paths of YAML files, and build all their requests.

    Args:
        names: as in the harness; `*` matches several.
        include_path: folders with further tasks.
        shots: number of few-shot examples, instead of the task's own; a task with none by
            definition keeps none, as in the harness.
        limit: only the first documents of each task.

    Returns:
        The tasks, and the harness's objects of the groups that average them.

    Raises:
        TokenmartError: no such task, or it can't be loaded; the message states which.
    """
    with quiet_harness():
        manager = task_manager(names, include_path)
        random.seed(0)
        np.random.seed(FEWSHOT_SEED)  # noqa: NPY002  what tasks of the harness draw from
        tasks: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for name in names:
            loaded = _load(manager, name)
            tasks.update(loaded["tasks"])
            groups.update(loaded.get("groups") or {})
        built = [_built(name, task, shots, limit) for name, task in tasks.items()]
    return built, [group for group in groups.values() if group.has_aggregation]


def _load(manager: Any, name: str) -> dict[str, Any]:
    matched = [name] if _is_file(name) else manager.match_tasks([name])
    if not matched:
        raise refused(
            f"--tasks {name}",
            f"no such task; {did_you_mean(name, manager.all_tasks)}see `lm_eval ls tasks`, or give "
            "--include-path the folder of its YAML file",
            "unknown-task",
        )
    try:
        return dict(manager.load(matched))
    except Exception as error:  # whatever a task's YAML, Python or data raises
        raise _unusable(name, "can't be loaded", error) from error


def in_chat(task: EvalTask, chat: Chat, limit: int | None) -> EvalTask:
    """The same task with its prompts in a chat template.

    Raises:
        TokenmartError: the requests can't be built so.
    """
    with quiet_harness():
        return _built(task.name, task.task, task.shots, limit, chat)


def _built(
    name: str, task: Any, shots: int | None, limit: int | None, chat: Chat | None = None
) -> EvalTask:
    stated = task.get_config("num_fewshot")
    count = int(stated or 0) if shots is None or stated == 0 else shots
    task.set_config(key="num_fewshot", value=count)
    task.set_fewshot_seed(seed=FEWSHOT_SEED)
    try:
        task.build_all_requests(
            limit=limit,
            apply_chat_template=chat is not None,
            fewshot_as_multiturn=chat is not None,
            chat_template=chat,
        )
    except Exception as error:  # for example a template that doesn't fit the data
        raise _unusable(name, "its requests can't be built", error) from error
    instances = [i for i in task.instances for _ in range(int(i.repeats or 1))]
    units = units_of(instances)
    run = f"{count}shot" + (f"-first{limit}" if limit else "")
    if chat:  # a template may write BOS or the date, so that one text makes several prompts
        run += f"-chat{requests_sha256(units)[:8]}"
    return EvalTask(name, condition_of(name, run), count, task, units)


def requests_sha256(units: Sequence[EvalUnit]) -> str:
    """Hash of all requests of a task, computed from its units' hashes in order."""
    return hashlib.sha256(",".join(unit.sha256 for unit in units).encode()).hexdigest()


def _unusable(name: str, what: str, error: Exception) -> TokenmartError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    reason = f"{type(error).__name__}: {reason}"
    if isinstance(error, KeyError) and error.args == (None,):  # its message has no name of anything
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        metric = frame.f_locals.get("metric_name", "a metric")
        reason = f"metric_list: {metric} is no metric of the harness, and has no aggregation"
    return refused(f"--tasks {name}", f"{what} ({reason}); correct the task", "unusable-task")
