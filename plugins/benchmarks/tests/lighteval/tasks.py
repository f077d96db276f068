"""Tasks for `start.py`, in the form of lighteval 0.8 and of 0.13: of each request type one."""

from __future__ import annotations

import os
from typing import Any

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

OLD = "suite" in LightevalTaskConfig.__dataclass_fields__


def pick(line: dict[str, Any], task_name: str | None = None) -> Doc:
    return Doc(
        task_name=task_name,
        query=line["question"],
        choices=line["choices"],
        gold_index=line["gold"],
    )


def say(line: dict[str, Any], task_name: str | None = None) -> Doc:
    right = [line["choices"][line["gold"]].strip()]
    return Doc(task_name=task_name, query=line["question"], choices=right, gold_index=0)


def read(line: dict[str, Any], task_name: str | None = None) -> Doc:
    if OLD:
        return Doc(task_name=task_name, query=line["text"], choices=None, gold_index=None)
    return Doc(task_name=task_name, query="", choices=[line["text"]], gold_index=0)


def task(name: str, prompt: Any, metrics: list[Any], **settings: Any) -> LightevalTaskConfig:
    named = {"metric": metrics, "suite": ["community"]} if OLD else {"metrics": metrics}
    return LightevalTaskConfig(
        name=name,
        prompt_function=prompt,
        hf_repo=os.environ["LIGHTEVAL_TEST_DATA"],
        hf_subset="default",
        hf_avail_splits=["train", "validation"],
        evaluation_splits=["validation"],
        few_shots_split="train",
        few_shots_select="sequential",
        **named,
        **settings,
    )


if OLD:
    NORM, OFTEN = Metrics.loglikelihood_acc_norm, [Metrics.maj_at_5, Metrics.pass_at_1]
else:
    from lighteval.metrics.normalizations import LogProbCharNorm

    NORM = Metrics.loglikelihood_acc(
        sample_params={"logprob_normalization": LogProbCharNorm(name="norm")}
    )
    OFTEN = [
        Metrics.pass_at_k(sample_params={"k": 1, "n": 4}),
        Metrics.maj_at_n(sample_params={"n": 4}),
        Metrics.avg_at_n(sample_params={"n": 4}),
    ]

TASKS_TABLE = [
    # two request types in 0.8: log-likelihoods of choices, and of the right one for `ppl`
    task(
        "colour:pick",
        pick,
        [Metrics.loglikelihood_acc, Metrics.mrr, Metrics.mcc, Metrics.target_perplexity],
    ),
    task("colour:like", pick, [NORM, Metrics.mrr]),
    task(
        "colour:say",
        say,
        [Metrics.exact_match, Metrics.f1_score, Metrics.rouge1, Metrics.chrf, Metrics.copyright],
        generation_size=4,
        stop_sequence=["\n"],
    ),
    task("colour:often", say, OFTEN, generation_size=4, stop_sequence=["\n"]),
    task("read", read, [Metrics.word_perplexity, Metrics.bits_per_byte]),
]
