"""Small tasks for lm-evaluation-harness with made-up data: one of each kind of request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima",
    "Kenya": "Nairobi", "Norway": "Oslo", "Cuba": "Havana", "Chile": "Santiago", "Iran": "Tehran",
    "Austria": "Vienna", "Greece": "Athens", "Poland": "Warsaw", "Canada": "Ottawa",
    "Nepal": "Kathmandu", "Côte d'Ivoire": "Yamoussoukro", "Paraguay": "Asunción",
}  # fmt: skip
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def two_choices() -> list[dict[str, Any]]:
    """Yes or no about a passage that two questions share."""
    rows = []
    for number, (land, city) in enumerate(CAPITALS.items()):
        passage = f"{city} is a city. It has been the capital of {land} for a long time."
        other = list(CAPITALS.values())[(number + 3) % len(CAPITALS)]
        rows += [
            {"passage": passage, "question": f"Is {city} the capital of {land}", "label": 1},
            {"passage": passage, "question": f"Is {other} the capital of {land}", "label": 0},
        ]
    return rows


def four_choices() -> list[dict[str, Any]]:
    """Capitals, with three wrong ones each."""
    cities = list(CAPITALS.values())
    rows = []
    for number, (land, city) in enumerate(CAPITALS.items()):
        choices = [cities[(number + 2 * step) % len(cities)] for step in range(1, 4)]
        choices.insert(number % 4, city)
        subject = "europe" if land in ("France", "Italy", "Norway", "Austria", "Greece") else "else"
        rows.append({"land": land, "choices": choices, "gold": number % 4, "subject": subject})
    return rows


def exam() -> list[dict[str, Any]]:
    """A longer text with four answers to choose from, as in reading comprehension."""
    rows = []
    lands = list(CAPITALS.items())
    for number, (land, city) in enumerate(lands):
        others = [lands[(number + step) % len(lands)] for step in range(1, 9)]
        text = " ".join(f"Of {name} the capital is {where}." for name, where in others)
        choices = [f"{where} is the capital of {land}." for _, where in others[:3]]
        choices.insert((number + 1) % 4, f"{city} is the capital of {land}.")
        rows.append({"text": text, "land": land, "choices": choices, "gold": (number + 1) % 4})
    return rows


def variable_choices() -> list[dict[str, Any]]:
    """Sums with three to five choices of different length."""
    rows = []
    for left in range(2, 6):
        for right in range(1, 5):
            right_one = WORDS[left + right]
            wrong = [
                f"{WORDS[(left + right + step) % 10]} exactly"[: 5 + 4 * step]
                for step in range(1, 3 + (left + right) % 3)
            ]
            place = (left * right) % (len(wrong) + 1)
            rows.append(
                {
                    "sum": f"{WORDS[left]} plus {WORDS[right]}",
                    "choices": [*wrong[:place], right_one, *wrong[place:]],
                    "gold": place,
                }
            )
    return rows  # fmt: skip


def texts() -> list[dict[str, Any]]:
    """Texts to be read whole, one of them longer than others."""
    sentences = [
        f"The capital of {land} is {city}, and  many people live there.\n"
        for land, city in CAPITALS.items()
    ]
    pages = [sentences[start : start + 1 + start] for start in range(4)]
    return [{"page": "".join(page)} for page in [*pages, sentences]]


def last_words() -> list[dict[str, Any]]:
    """A text whose last word is to be predicted."""
    return [
        {"text": f"I went to {city}. The next day I still was in {city}"}
        for city in CAPITALS.values()
    ]


def counting() -> list[dict[str, Any]]:
    """A sequence to continue by writing, by steps of one to five."""
    return [
        {
            "question": ", ".join(str(start + step * place) for place in range(5)),
            "answer": str(start + 5 * step),
        }
        for step in range(1, 6)
        for start in (3, 17, 40)
    ]


MULTIPLE = [
    {"metric": name, "aggregation": "mean", "higher_is_better": True}
    for name in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")
]
TASKS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "made_two": (
        two_choices(),
        {
            "output_type": "multiple_choice",
            "doc_to_text": "{{passage}}\nQuestion: {{question}}?\nAnswer:",
            "doc_to_choice": ["no", "yes"],
            "doc_to_target": "label",
            "metric_list": [{"metric": "acc"}, {"metric": "brier_score"}],
        },
    ),
    "made_four": (
        four_choices(),
        {
            "output_type": "multiple_choice",
            "doc_to_text": "!function prompts.capital",
            "doc_to_choice": "choices",
            "doc_to_target": "gold",
            "metric_list": [*MULTIPLE, {"metric": "brier_score"}],
        },
    ),
    "made_variable": (
        variable_choices(),
        {
            "output_type": "multiple_choice",
            "doc_to_text": "{{sum}} is ",
            "doc_to_choice": "choices",
            "doc_to_target": "gold",
            "fewshot_split": "test",
            "num_fewshot": 2,
            "metric_list": MULTIPLE[:3],
        },
    ),
    "made_exam": (
        exam(),
        {
            "output_type": "multiple_choice",
            "doc_to_text": "{{text}}\nWhich is true of {{land}}?\nAnswer:",
            "doc_to_choice": "choices",
            "doc_to_target": "gold",
            "metric_list": MULTIPLE[:3],
        },
    ),
    "made_rolling": (
        texts(),
        {
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "{{page}}",
            "metric_list": [
                {"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")
            ],
        },
    ),
    "made_last_word": (
        last_words(),
        {
            "output_type": "loglikelihood",
            "doc_to_text": "{{text.rsplit(' ', 1)[0]}}",
            "doc_to_target": "{{' ' + text.rsplit(' ', 1)[1]}}",
            "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}],
        },
    ),
    "made_counting": (
        counting(),
        {
            "output_type": "generate_until",
            "doc_to_text": "1, 2, 3, 4, 5, 6.\n{{question}},",
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 12, "do_sample": False},
            "filter_list": [
                {
                    "name": "first-number",
                    "filter": [
                        {"function": "regex", "regex_pattern": r"(-?\d+)"},
                        {"function": "take_first"},
                    ],
                }
            ],
            "metric_list": [
                {"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True}
            ],
        },
    ),
}
"""Name → its documents and the task's settings."""


def write_tasks(folder: Path) -> Path:
    """Write data and YAML of all tasks; returns the folder for `--include-path`."""
    folder.mkdir(parents=True)
    (folder / "prompts.py").write_text(
        "def capital(doc):\n    return f\"The capital of {doc['land']} is the city of\"\n"
    )
    for name, (documents, settings) in TASKS.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
        config = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            **settings,
            "metadata": {"version": 1},
        }
        text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        (folder / f"{name}.yaml").write_text(
            text.replace("'!function prompts.capital'", "!function prompts.capital"), "utf-8"
        )
    return folder
