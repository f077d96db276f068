"""The engine as a model of lm-evaluation-harness: `lm_eval --model tokenmart`.

The harness builds requests and computes metrics as with any other model. Every token is stored, and
an interrupted run resumes within its task.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from lm_eval.api.model import LM
from lm_eval.api.registry import model_registry

from extract.failures import summary
from plugins.benchmarks.cli.eval import prepare_run
from plugins.benchmarks.harness.chat import Chat, Messages, chat_of
from plugins.benchmarks.harness.encoding import TooLong
from plugins.benchmarks.harness.item_rows import item_rows
from plugins.benchmarks.harness.results import Response
from plugins.benchmarks.harness.stored_items import condition_of, refuse_clashes, store_items
from plugins.benchmarks.harness.tasks import FEWSHOT_SEED, EvalTask, run_of, task_manager, units_of
from plugins.benchmarks.refusal import refused
from warehouse.errors import UnitFailedError, visible

NAME = "tokenmart"


class TokenmartLM(LM):  # type: ignore[misc]  # lm_eval is not checked here
    """A model of a problem file.

    Args:
        problem: its name, or the path of its file.
        model: full id of the model.
        device: auto, cpu, cuda …
        dtype: auto, float32, bfloat16 or float16.
        shots: value of `--num_fewshot`, if given; the harness doesn't pass it on.
        include_path: value of `--include_path`, for tasks outside the harness.
        too_long: treatment of an item that is longer than the model's context: cut it after its
            BOS, cut it as the harness's class for transformers does, or fail.
        options: arguments that the harness passes to every model (`batch_size`); not used here.
    """

    def __init__(
        self,
        problem: str,
        model: str,
        device: str | None = None,
        dtype: str = "auto",
        shots: int | None = None,
        fewshot_seed: int = FEWSHOT_SEED,
        include_path: str | None = None,
        too_long: TooLong = "cut",
        **options: Any,
    ) -> None:
        super().__init__()
        if too_long not in ("cut", "harness", "fail"):
            raise refused(f"too_long={too_long}", "expected cut, harness or fail", "option")
        self.run = prepare_run(problem, model, device or "auto", dtype, too_long)
        self.shots = shots
        self.fewshot_seed = int(fewshot_seed)
        self.include_path = [Path(include_path)] if include_path else []
        self.chat = Chat()

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        """Log-likelihood of each continuation, in nats, and whether it is the greedy one."""
        return [(each.loglikelihood, each.is_greedy) for each in self._responses(requests)]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        """Log-likelihood of each text, in nats."""
        return [each.loglikelihood for each in self._responses(requests)]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        """The text that the model generates after each prompt."""
        return [each.text for each in self._responses(requests)]

    def apply_chat_template(
        self, chat_history: Messages, add_generation_prompt: bool = True
    ) -> str:
        """Messages in the model's own chat template; marks all later requests as a chat."""
        if self.chat.apply is None:
            self.chat_template(True)
        assert self.chat.apply is not None
        return self.chat.apply(chat_history, add_generation_prompt)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The model's own chat template; called by the harness."""
        plan = self.run.plan
        self.chat = chat_of(plan.spec.full_id, plan.tokenizer.library) if chat_template else Chat()
        return self.chat.template

    @property
    def tokenizer_name(self) -> str:
        """Key under which the harness caches requests."""
        return self.run.plan.tokenizer_sha256

    def _responses(self, instances: Sequence[Any]) -> list[Response]:
        by_task: dict[str, list[int]] = {}
        for index, instance in enumerate(instances):
            by_task.setdefault(str(instance.task_name), []).append(index)
        found: dict[int, Response] = {}
        for name, indices in by_task.items():
            task = self._task(name, [instances[i] for i in indices])
            rows = item_rows(task)
            workspace, problem = self.run.workspace, self.run.problem.name
            refuse_clashes(workspace, problem, [(task.name, task.condition)])
            store_items(workspace, problem, task.condition, rows)
            self.run.run(task)
            if self.run.failures:
                raise UnitFailedError("; ".join(summary(self.run.failures)))
            places: dict[int, list[int]] = {}
            for index in indices:
                places.setdefault(id(instances[index]), []).append(index)
            answered = list(self.run.responses(task))
            if left := len(task.units) - len(answered):
                raise refused(
                    f"{self.run.plan.spec.full_id}, {name}",
                    f"another process is doing {left} of {len(task.units)} units; run the same "
                    "command again when it has ended",
                    "claimed-units",
                )
            for each, _ in answered:
                for request, response in zip(each.unit.requests, each.responses, strict=True):
                    assert response is not None  # items that fail end the run above
                    found[places[id(request.instance)][request.repeat]] = response
            self.run.store_answers(task)
            for note in filter(None, (str(self.run.shortened(task)), self.chat.note)):
                click.echo(visible(f"note: {name}: {note}"), err=True)
        return [found[index] for index in range(len(instances))]

    def _task(self, name: str, instances: Sequence[Any]) -> EvalTask:
        """The task of some instances; its right answers are known if the harness has the task."""
        manager = task_manager([name], self.include_path)
        found = manager.load([name])["tasks"].get(name) if name in manager.all_tasks else None
        own = None if found is None else found.get_config("num_fewshot")
        shots = int(own or 0) if self.shots is None or own == 0 else int(self.shots)
        units = units_of(instances)
        count = len({instance.doc_id for instance in instances})
        limit = None if found is None or count == len(found.eval_docs) else count
        condition = condition_of(name, run_of(shots, limit, self.fewshot_seed) + self.chat.ending)
        return EvalTask(name, condition, shots, found, units, self.fewshot_seed)


def with_device(arguments: list[str]) -> list[str]:
    """The harness's command line with `--device auto`, unless it names a device or a config file.

    The harness's own default is cuda:0, with a GPU or without.
    """
    named = any(each.partition("=")[0] in ("--device", "--config", "-C") for each in arguments)
    ours = NAME in arguments or any(each.endswith(f"={NAME}") for each in arguments)
    return arguments if named or not ours else [*arguments, "--device", "auto"]


def main() -> None:
    """The harness's own command line, extended by `--model tokenmart`."""
    from lm_eval.__main__ import cli_evaluate

    model_registry.register(NAME, target=TokenmartLM)
    sys.argv[1:] = with_device(sys.argv[1:])
    cli_evaluate()
