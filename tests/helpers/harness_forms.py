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
Form = tuple[str, Documents, dict[str, Any]]


def _cities(number: int, count: int) -> list[str]:
    """The right city and others, the right one at `number % count`."""
    names = list(CAPITALS.values())
    found = [names[(number + 1 + 2 * step) % len(names)] for step in range(1, count)]
    found.insert(number % count, LANDS[number][1])
    return found


def _filled(template: Any, number: int) -> Any:
    """A value of a document: numbers by function, texts with land, city and choices put in."""
    if callable(template):
        return template(number)
    if isinstance(template, dict):
        return {key: _filled(each, number) for key, each in template.items()}
    if isinstance(template, list):
        return [_filled(each, number) for each in template]
    if not isinstance(template, str):
        return template
    land, city = LANDS[number]
    two, three, four = (_cities(number, count) for count in (2, 3, 4))
    return template.format(land=land, city=city, n=number, two=two, three=three, four=four)


def _form(file: str, settings: dict[str, Any] | None = None, **template: Any) -> Form:
    rows = [_filled(template, number) for number in range(len(LANDS))]
    return file, rows, settings or {}


def _labelled(count: int) -> dict[str, Any]:
    return {
        "choices": lambda n: {"text": _cities(n, count), "label": list("ABCDE"[:count])},
        "answerKey": lambda n: "ABCDE"[n % count],
    }


def of_four(n: int) -> int:
    """Place of the right city among four."""
    return n % 4


def one_or_two(n: int) -> int:
    """Place of the right city among two."""
    return n % 2


_ENDINGS = {f"ending{i}": f"{{four[{i}]}}, then." for i in range(4)}
_CLASSES = {"premise": "{city} lies in {land}.", "label": lambda n: n % 3}
_MMLU = {
    "question": "Capital of {land}?",
    "choices": lambda n: _cities(n, 4),
    "answer": of_four,
}
_MMLU_FILE = "mmlu/default/_default_template_yaml"


def _brief(*until: str) -> dict[str, Any]:
    """Generation as in the task's file, but of few tokens; `anagrams1` has the harness's limit."""
    return {"generation_kwargs": {"until": [*until], "do_sample": False, "max_gen_toks": 24}}


FORMS: dict[str, Form] = {
    "arc_easy": _form("arc/arc_easy.yaml", question="Capital of {land}?", **_labelled(4)),
    "openbookqa": _form(
        "openbookqa/openbookqa.yaml", question_stem="{land} is ruled from", **_labelled(4)
    ),
    "commonsense_qa": _form(
        "commonsense_qa/default.yaml", question="Capital of {land}?", **_labelled(5)
    ),
    "hellaswag": _form(
        "hellaswag/hellaswag.yaml",
        activity_label="Travel",
        ctx_a="A man flies to {land}.",
        ctx_b="he lands in",
        endings=[f"{{four[{i}]}} [step] at night." for i in range(4)],
        label=lambda n: str(n % 4),
    ),
    "piqa": _form(
        "piqa/piqa.yaml",
        goal="To reach {land}",
        sol1="fly to {two[0]}",
        sol2="fly to {two[1]}.",
        label=one_or_two,
    ),
    "winogrande": _form(
        "winogrande/default.yaml",
        sentence="Not {land} but _ is a city where naïve people meet.",
        option1="{two[0]}",
        option2="{two[1]}",
        answer=lambda n: str(n % 2 + 1),
    ),
    "wsc273": _form(
        "wsc273/default.yaml",
        text="Ann met Mary in {city} and she was glad of it.",
        pronoun="she",
        pronoun_loc=lambda n: len(f"Ann met Mary in {LANDS[n][1]} and "),
        options=["Ann", "Mary"],
        label=one_or_two,
    ),
    "boolq": _form(
        "super_glue/boolq/default.yaml",
        passage="{city} lies in {land}.",
        question="is {three[0]} in {land}",
        label=lambda n: int(n % 3 == 0),
    ),
    "copa": _form(
        "super_glue/copa/default.yaml",
        premise="They went to {land}.",
        question=lambda n: ("cause", "effect")[n % 2],
        choice1="They liked {city}.",
        choice2="They had no money.",
        label=lambda n: n // 2 % 2,
    ),
    "cb": _form("super_glue/cb/default.yaml", hypothesis="{land} has a city", **_CLASSES),
    "cola": _form("glue/cola/default.yaml", sentence="{city} {land} is in.", label=one_or_two),
    "mrpc": _form(
        "glue/mrpc/default.yaml",
        sentence1="{city} is in {land}.",
        sentence2="{land} has {city}.",
        label=lambda n: int(n % 3 > 0),
    ),
    "sciq": _form(
        "sciq/sciq.yaml",
        support=" {city} lies in {land}.",
        question="What lies in {land}?",
        distractor1="a sea",
        distractor2="a ox",
        distractor3="a sun",
        correct_answer="{city}",
    ),
    "swag": _form("swag/swag.yaml", startphrase="In {land} she saw", label=of_four, **_ENDINGS),
    "anli_r1": _form(
        "anli/anli_r1.yaml",
        {"training_split": None, "validation_split": None},
        hypothesis="{land} is large.",
        **_CLASSES,
    ),
    "headqa_en": _form(
        "headqa/headqa_en.yaml",
        qtext="Capital of {land}?",
        answers=[{"aid": i + 1, "atext": f"{{four[{i}]}}"} for i in range(4)],
        ra=lambda n: n % 4 + 1,
    ),
    # one in four has a right answer that is none of the choices
    "gold_out_of_range": _form(
        "swag/swag.yaml",
        startphrase="In {land} she saw",
        label=lambda n: 7 if n % 4 == 3 else n % 4,
        **_ENDINGS,
    ),
    "truthfulqa_mc1": _form(
        "truthfulqa/truthfulqa_mc1.yaml",
        question="Where is {city}?",
        mc1_targets={"choices": ["{land}", "Nowhere", "In the sea"], "labels": [1, 0, 0]},
    ),
    "truthfulqa_mc2": _form(
        "truthfulqa/truthfulqa_mc2.yaml",
        question="Where is {city}?",
        mc2_targets={"choices": ["{land}", "On Earth", "Nowhere"], "labels": [1, 1, 0]},
    ),
    "crows_pairs": _form(
        "crows_pairs/crows_pairs_english.yaml",
        sent_more="People of {land} sing.",
        sent_less="People of {city} sing.",
    ),
    "mutual": _form(
        "mutual/mutual.yaml",
        article="m : where is {city} ? f :",
        options=[f"in {{four[{i}]}} ." for i in range(4)],
        answers=lambda n: "ABCD"[n % 4],
    ),
    "webqs": _form(
        "webqs/webqs.yaml",
        question="what city is in {land}?",
        answers=["{city}", "{city} City", "the town"],
    ),
    "lambada_openai": _form(
        "lambada/lambada_openai.yaml", text="We saw {city}, and all of us liked {city}"
    ),
    "asdiv": _form(
        "asdiv/default.yaml",
        body="{city} has {n} parks.",
        question="How many parks?",
        answer="{n} (parks)",
    ),
    "wikitext": _form(
        "wikitext/wikitext.yaml", page=" = {land} = \n\n {city} , 1 @,@ 000 's town . "
    ),
    "drop": _form(
        "drop/default.yaml",
        _brief("."),
        query_id="{n}",
        passage="{city} has {n} parks.",
        question="How many?",
        answer={"number": "{n}", "spans": [], "date": dict.fromkeys(("day", "month", "year"), "")},
        validated_answers={"number": [], "spans": [], "date": []},
    ),
    "gsm8k": _form(
        "gsm8k/gsm8k.yaml",
        {
            "num_fewshot": 5,
            "fewshot_split": "test",
            "training_split": None,
            **_brief("Question:"),
        },
        question="{city} has {n} parks and 2 more. How many?",
        answer=lambda n: f"It has {n} + 2.\n#### {n + 2}",
    ),
    "mmlu_5shot": _form(_MMLU_FILE, {"num_fewshot": 5, "fewshot_split": "test"}, **_MMLU),
    "triviaqa": _form(
        "triviaqa/default.yaml",
        _brief("\n", ".", ","),
        question="Capital of {land}",
        answer={"aliases": ["{city}", "City of {city}", "the"]},
    ),
    "nq_open": _form(
        "nq_open/nq_open.yaml",
        _brief("\n", ".", ","),
        question="capital of {land}",
        answer=["{city}"],
    ),
    "anagrams1": _form(
        "unscramble/anagrams1.yaml",
        context=lambda n: f"{LANDS[n][1][::-1]} =",
        completion="{city}",
    ),
}
"""Name → the harness's file, documents, and what else is set."""

GROUP = ("mmlu_made", ("mmlu_made_north", "mmlu_made_south"))
"""A group of two subjects of different size, by the template of mmlu."""


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


NOT_IMPORTED = ("form_gold_out_of_range", "form_winogrande", "form_wsc273")
"""Their samples are refused: a target that is none of the choices, or several texts before it."""


def imported_samples(logged: Path) -> list[str]:
    """The harness's files of samples below a folder that an import accepts, in order."""
    refused = tuple(f"samples_{name}_" for name in NOT_IMPORTED)
    files = sorted(logged.rglob("samples_*.jsonl"))
    return [str(file) for file in files if not file.name.startswith(refused)]


def write_forms(folder: Path) -> Path:
    """Write data and YAML of all forms and the group; returns the folder for `--include-path`."""
    folder.mkdir(parents=True)
    for name, config in _configs(folder):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return folder


def _configs(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import lm_eval

    shipped = Path(lm_eval.__file__).parent / "tasks"
    rows = _form(_MMLU_FILE, **_MMLU)[1]
    members = zip(GROUP[1], (rows[:4], rows[4:10]), strict=True)
    subjects = {name: (_MMLU_FILE, part, {"fewshot_split": None}) for name, part in members}
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
