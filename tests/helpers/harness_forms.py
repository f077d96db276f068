"""The harness's own task files on documents made here: how real tasks ask and count.

Each form includes the YAML that lm-evaluation-harness ships and puts local data in place of its
dataset, so templates, filters, `process_results` and aggregations are the harness's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from eval_tasks import CAPITALS

LANDS = list(CAPITALS.items())[:10]
Documents = list[dict[str, Any]]


def _cities(number: int, count: int) -> list[str]:
    """The right city and others, the right one at `number % count`."""
    names = list(CAPITALS.values())
    found = [names[(number + 1 + 2 * step) % len(names)] for step in range(1, count)]
    found.insert(number % count, LANDS[number][1])
    return found


def _each(make: Any) -> Documents:
    return [make(number, land, city) for number, (land, city) in enumerate(LANDS)]


def _labelled(number: int, count: int) -> dict[str, Any]:
    return {
        "choices": {"text": _cities(number, count), "label": list("ABCDE"[:count])},
        "answerKey": "ABCDE"[number % count],
    }


FORMS: dict[str, tuple[str, Documents, dict[str, Any]]] = {
    "arc_easy": (
        "arc/arc_easy.yaml",
        _each(lambda n, land, city: {"question": f"Capital of {land}?", **_labelled(n, 4)}),
        {},
    ),
    "openbookqa": (
        "openbookqa/openbookqa.yaml",
        _each(lambda n, land, city: {"question_stem": f"{land} is ruled from", **_labelled(n, 4)}),
        {},
    ),
    "commonsense_qa": (
        "commonsense_qa/default.yaml",
        _each(lambda n, land, city: {"question": f"Capital of {land}?", **_labelled(n, 5)}),
        {},
    ),
    "hellaswag": (
        "hellaswag/hellaswag.yaml",
        _each(
            lambda n, land, city: {
                "activity_label": "Travel",
                "ctx_a": f"A man flies to {land}.",
                "ctx_b": "he lands in",
                "endings": [f"{each} [step] at night." for each in _cities(n, 4)],
                "label": str(n % 4),
            }
        ),
        {},
    ),
    "piqa": (
        "piqa/piqa.yaml",
        _each(
            lambda n, land, city: {
                "goal": f"To reach {land}",
                "sol1": f"fly to {_cities(n, 2)[0]}",
                "sol2": f"fly to {_cities(n, 2)[1]}.",
                "label": n % 2,
            }
        ),
        {},
    ),
    "winogrande": (
        "winogrande/default.yaml",
        _each(
            lambda n, land, city: {
                "sentence": f"Not {land} but _ is a city where naïve people meet.",
                "option1": _cities(n, 2)[0],
                "option2": _cities(n, 2)[1],
                "answer": str(n % 2 + 1),
            }
        ),
        {},
    ),
    "wsc273": (
        "wsc273/default.yaml",
        _each(
            lambda n, land, city: {
                "text": f"Ann met Mary in {city} and she was glad of it.",
                "pronoun": "she",
                "pronoun_loc": len(f"Ann met Mary in {city} and "),
                "options": ["Ann", "Mary"],
                "label": n % 2,
            }
        ),
        {},
    ),
    "boolq": (
        "super_glue/boolq/default.yaml",
        _each(
            lambda n, land, city: {
                "passage": f"{city} lies in {land}.",
                "question": f"is {_cities(n, 3)[0]} in {land}",
                "label": int(n % 3 == 0),
            }
        ),
        {},
    ),
    "copa": (
        "super_glue/copa/default.yaml",
        _each(
            lambda n, land, city: {
                "premise": f"They went to {land}.",
                "question": ("cause", "effect")[n % 2],
                "choice1": f"They liked {city}.",
                "choice2": "They had no money.",
                "label": n // 2 % 2,
            }
        ),
        {},
    ),
    "cb": (
        "super_glue/cb/default.yaml",
        _each(
            lambda n, land, city: {
                "premise": f"{city} lies in {land}.",
                "hypothesis": f"{land} has a city",
                "label": n % 3,
            }
        ),
        {},
    ),
    "cola": (
        "glue/cola/default.yaml",
        _each(lambda n, land, city: {"sentence": f"{city} {land} is in.", "label": n % 2}),
        {},
    ),
    "mrpc": (
        "glue/mrpc/default.yaml",
        _each(
            lambda n, land, city: {
                "sentence1": f"{city} is in {land}.",
                "sentence2": f"{land} has {city}.",
                "label": int(n % 3 > 0),
            }
        ),
        {},
    ),
    "sciq": (
        "sciq/sciq.yaml",
        _each(
            lambda n, land, city: {
                "support": f" {city} lies in {land}.",
                "question": f"What lies in {land}?",
                **{f"distractor{i}": f"a {each}" for i, each in enumerate(("sea", "ox", "sun"), 1)},
                "correct_answer": city,
            }
        ),
        {},
    ),
    "swag": (
        "swag/swag.yaml",
        _each(
            lambda n, land, city: {
                "startphrase": f"In {land} she saw",
                **{f"ending{i}": f"{each}, then." for i, each in enumerate(_cities(n, 4))},
                "label": n % 4,
            }
        ),
        {},
    ),
    "anli_r1": (
        "anli/anli_r1.yaml",
        _each(
            lambda n, land, city: {
                "premise": f"{city} lies in {land}.",
                "hypothesis": f"{land} is large.",
                "label": n % 3,
            }
        ),
        {"training_split": None, "validation_split": None},
    ),
    "headqa_en": (
        "headqa/headqa_en.yaml",
        _each(
            lambda n, land, city: {
                "qtext": f"Capital of {land}?",
                "answers": [{"aid": i, "atext": each} for i, each in enumerate(_cities(n, 4), 1)],
                "ra": n % 4 + 1,
            }
        ),
        {},
    ),
    # one in four has a right answer that is none of the choices
    "gold_out_of_range": (
        "swag/swag.yaml",
        _each(
            lambda n, land, city: {
                "startphrase": f"In {land} she saw",
                **{f"ending{i}": f"{each}, then." for i, each in enumerate(_cities(n, 4))},
                "label": 7 if n % 4 == 3 else n % 4,
            }
        ),
        {},
    ),
    "truthfulqa_mc1": (
        "truthfulqa/truthfulqa_mc1.yaml",
        _each(
            lambda n, land, city: {
                "question": f"Where is {city}?",
                "mc1_targets": {"choices": [land, "Nowhere", "In the sea"], "labels": [1, 0, 0]},
            }
        ),
        {},
    ),
    "truthfulqa_mc2": (
        "truthfulqa/truthfulqa_mc2.yaml",
        _each(
            lambda n, land, city: {
                "question": f"Where is {city}?",
                "mc2_targets": {"choices": [land, "On Earth", "Nowhere"], "labels": [1, 1, 0]},
            }
        ),
        {},
    ),
    "crows_pairs": (
        "crows_pairs/crows_pairs_english.yaml",
        _each(
            lambda n, land, city: {
                "sent_more": f"People of {land} sing.",
                "sent_less": f"People of {city} sing.",
            }
        ),
        {},
    ),
    "mutual": (
        "mutual/mutual.yaml",
        _each(
            lambda n, land, city: {
                "article": f"m : where is {city} ? f :",
                "options": [f"in {each} ." for each in _cities(n, 4)],
                "answers": "ABCD"[n % 4],
            }
        ),
        {},
    ),
    "webqs": (
        "webqs/webqs.yaml",
        _each(
            lambda n, land, city: {
                "question": f"what city is in {land}?",
                "answers": [city, f"{city} City", "the town"],
            }
        ),
        {},
    ),
    "lambada_openai": (
        "lambada/lambada_openai.yaml",
        _each(lambda n, land, city: {"text": f"We saw {city}, and all of us liked {city}"}),
        {},
    ),
    "asdiv": (
        "asdiv/default.yaml",
        _each(
            lambda n, land, city: {
                "body": f"{city} has {n} parks.",
                "question": "How many parks?",
                "answer": f"{n} (parks)",
            }
        ),
        {},
    ),
    "wikitext": (
        "wikitext/wikitext.yaml",
        _each(lambda n, land, city: {"page": f" = {land} = \n\n {city} , 1 @,@ 000 's town . "}),
        {},
    ),
    "drop": (
        "drop/default.yaml",
        _each(
            lambda n, land, city: {
                "query_id": str(n),
                "passage": f"{city} has {n} parks.",
                "question": "How many?",
                "answer": {
                    "number": str(n),
                    "spans": [],
                    "date": {"day": "", "month": "", "year": ""},
                },
                "validated_answers": {"number": [], "spans": [], "date": []},
            }
        ),
        {},
    ),
    "gsm8k": (
        "gsm8k/gsm8k.yaml",
        _each(
            lambda n, land, city: {
                "question": f"{city} has {n} parks and 2 more. How many?",
                "answer": f"It has {n} + 2.\n#### {n + 2}",
            }
        ),
        {
            "num_fewshot": 5,
            "fewshot_split": "test",
            "training_split": None,
            "generation_kwargs": {"until": ["Question:"], "do_sample": False, "max_gen_toks": 96},
        },
    ),
    "mmlu_5shot": (
        "mmlu/default/_default_template_yaml",
        _each(
            lambda n, land, city: {
                "question": f"Capital of {land}?",
                "choices": _cities(n, 4),
                "answer": n % 4,
            }
        ),
        {"num_fewshot": 5, "fewshot_split": "test"},
    ),
    "triviaqa": (
        "triviaqa/default.yaml",
        _each(
            lambda n, land, city: {
                "question": f"Capital of {land}",
                "answer": {"aliases": [city, f"City of {city}", "the"]},
            }
        ),
        {},
    ),
    "nq_open": (
        "nq_open/nq_open.yaml",
        _each(lambda n, land, city: {"question": f"capital of {land}", "answer": [city]}),
        {},
    ),
    "anagrams1": (
        "unscramble/anagrams1.yaml",
        _each(lambda n, land, city: {"context": f"{city[::-1]} =", "completion": city}),
        {},
    ),
}
"""Name → the harness's file, documents, and what else is set."""

GROUP = ("mmlu_made", ("mmlu_made_north", "mmlu_made_south"))
"""A group of two subjects of different size, by the template of mmlu."""


def _mmlu(first: int, stop: int) -> Documents:
    rows = _each(
        lambda n, land, city: {
            "question": f"Capital of {land}?",
            "choices": _cities(n, 4),
            "answer": n % 4,
        }
    )
    return rows[first:stop]


def results_of_harness(model: Any, forms: Path, names: list[str], logged: Path) -> dict[str, Any]:
    """Task or group → metric,filter → value, by a model of the harness and its arithmetic.

    Task by task: where one can't be counted, the harness ends. Its own files go to `logged`.
    """
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=str(forms), include_defaults=False)
    found: dict[str, Any] = {}
    for name in names:
        run = dict(
            simple_evaluate(
                model, tasks=[name], task_manager=manager, bootstrap_iters=0, log_samples=True
            )
        )
        samples = run.pop("samples")
        tracker = EvaluationTracker(output_path=str(logged / name))
        tracker.general_config_tracker.model_name_sanitized = "model"
        tracker.save_results_aggregated(run, samples)
        for task, found_samples in samples.items():
            tracker.save_results_samples(task_name=task, samples=found_samples)
        for task, values in run["results"].items():
            found[task] = {
                key: value for key, value in values.items() if "," in key and "_stderr," not in key
            }
    return found


def write_forms(folder: Path) -> Path:
    """Write data and YAML of all forms and the group; returns the folder for `--include-path`."""
    folder.mkdir(parents=True)
    for name, config in _configs(folder):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return folder


def _configs(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import lm_eval

    shipped = Path(lm_eval.__file__).parent / "tasks"
    template = "mmlu/default/_default_template_yaml"
    members = zip(GROUP[1], (_mmlu(0, 4), _mmlu(4, 10)), strict=True)
    subjects = {name: (template, rows, {"fewshot_split": None}) for name, rows in members}
    for name, (file, documents, settings) in {**FORMS, **subjects}.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
        yield (
            f"form_{name}" if name in FORMS else name,
            {
                "include": str(shipped / file),
                "task": f"form_{name}" if name in FORMS else name,
                "tag": None,
                "dataset_path": "json",
                "dataset_name": None,
                "dataset_kwargs": {"data_files": {"test": str(data)}},
                "training_split": None,
                "validation_split": None,
                "test_split": "test",
                **settings,
            },
        )
    yield (
        GROUP[0],
        {
            "group": GROUP[0],
            "task": list(GROUP[1]),
            "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
        },
    )
