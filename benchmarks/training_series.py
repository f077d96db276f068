"""Which items carry signal early in training? A real series, made here from nothing.

Trains three small Llamas on technical documents of Django (BSD-3-Clause; from minilong's archive),
16 checkpoints each; asks all of them, through `tokenmart eval`, which of four endings a passage of
held-out documents has; and tries `tokenmart e2lm curate` on the answers. Written are the scores of
single items (no text), the task's scores in several readings, and what choosing items is worth.

    tokenmart data fetch --problem minilong
    python benchmarks/training_series.py

About 15 minutes on two cores; interrupted, it goes on where it was. Figures differ in their last
digits between processors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from warehouse.paths import find_workspace  # noqa: E402
from warehouse.problem.spec import load_problem  # noqa: E402
from warehouse.progress import progress_bar  # noqa: E402

WIDTHS = (32, 48, 64)
CHECKPOINTS, STEPS_BETWEEN = 16, 24
CONTEXT, BATCH = 128, 16
VOCABULARY, LAYERS, HEADS = 2048, 4, 4
RATE, WARM_UP = 2e-3, 24
HELD_OUT_EVERY = 8
ITEMS, CHOICES, PROMPT_WORDS = 300, 4, 32
ENDINGS = (1, 2, 3, 5, 8)
"""Words of an ending, in turn: long answers can be told from short ones."""

TASK = "django_endings"
READINGS = ("acc", "acc_norm", "loglik_margin_mean_per_char", "norm_correct_prob", "bpb")


def main() -> None:
    """Train, ask, choose; whatever is there already is not made again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "training_series")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "training_series")
    parser.add_argument("--train-only", action="store_true", help="Stop behind the checkpoints.")
    arguments = parser.parse_args()
    started = time.monotonic()
    work = arguments.work.resolve()
    learnt, held_out = documents()
    problem = write_problem(work, held_out)
    tokenizer = make_tokenizer(work, learnt)
    ids = np.concatenate([[0, *tokenizer(text).input_ids] for text in learnt.values()])
    with progress_bar(len(WIDTHS) * CHECKPOINTS, "checkpoints") as progress:
        for width in WIDTHS:
            train(width, ids, tokenizer, work, progress)
    if arguments.train_only:
        return
    words = {"TOKENMART_DATA": str(work / "data"), "TOKENMART_DATABASE": str(work / "t.duckdb")}
    tokenmart(words, "eval", "--problem", str(problem), "--tasks", TASK,
              "--include-path", str(work / "task"), "--device", "cpu")  # fmt: skip
    tokenmart(words, "dbt", "--quiet", "run", "--select", "+eval_metrics")
    arguments.out.mkdir(exist_ok=True)
    items, scores = arguments.out / "items.parquet", arguments.out / "scores.csv"
    tokenmart(words, "sql", "--force", "--out", str(items), ITEM_SCORES)
    tokenmart(words, "sql", "--force", "--out", str(scores), TASK_SCORES)
    tokenmart({}, "e2lm", "score", "--scores", str(scores), "--out",
              str(arguments.out / "signal.json"))  # fmt: skip
    found: dict[str, Any] = {"tokens": len(ids), "items": ITEMS, "widths": WIDTHS}
    for reading in READINGS:
        out = work / f"{reading}.json"
        tokenmart({}, "e2lm", "curate", "--items", str(items), "--metric", reading,
                  "--out", str(out))  # fmt: skip
        chosen = json.loads(out.read_text(encoding="utf-8"))
        found[reading] = {
            "chosen": len(chosen["items"]),
            "held_out": chosen["held_out"],
            "by_length": chosen["by_length"],
            "by_subject": chosen["by_subject"],
        }
    found["minutes"] = round((time.monotonic() - started) / 60, 1)
    text = json.dumps(found, indent=1) + "\n"
    (arguments.out / "curation.json").write_text(text, encoding="utf-8")


ITEM_SCORES = f"""
    select
        regexp_extract(model_id, '^(.*)-step', 1) as model,
        cast(regexp_extract(model_id, 'step([0-9]+)', 1) as integer) as step,
        item,
        metric,
        cast(if(better = 'lower', -value, value) as float) as score,
        subject,
        cast(answer_characters as smallint) as characters
    from eval_item_metrics
    inner join eval_metric_catalog using (request_type, metric)
    where metric in {READINGS}
    order by metric, model, step, item
"""

TASK_SCORES = f"""
    select
        regexp_extract(model_id, '^(.*)-step', 1) as model,
        regexp_extract(model_id, 'llama-([0-9]+)', 1) as size,
        'llama' as arch,
        cast(regexp_extract(model_id, 'step([0-9]+)', 1) as integer)
        * {CONTEXT * BATCH} / 1e9 as tokens_bt,
        metric as benchmark,
        round(if(better = 'lower', -value, value), 6) as score
    from eval_metrics
    inner join eval_metric_catalog using (metric)
    where part = 'all' and request_type = 'multiple_choice' and metric in {READINGS}
    order by model, tokens_bt, benchmark
"""


def tokenmart(environment: dict[str, str], *words: str) -> None:
    """Run a command of ours; its own words say what went wrong."""
    command = [sys.executable, "-m", "tokenmart", *words]
    subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT, check=True)


def documents() -> tuple[dict[str, str], dict[str, str]]:
    """Texts to learn from and texts to ask about, by name."""
    workspace = find_workspace()
    source = load_problem("minilong", workspace).documents
    archive = workspace.cache / "archives" / source.archive
    texts = {}
    with tarfile.open(archive) as members:
        for member in members.getmembers():
            name = member.name.partition("/")[2]
            file = members.extractfile(member)
            if re.fullmatch(r"docs/.+\.txt", name) and file is not None:
                texts[name] = file.read().decode("utf-8")
    names = sorted(texts)
    return (
        {name: texts[name] for at, name in enumerate(names) if at % HELD_OUT_EVERY},
        {name: texts[name] for at, name in enumerate(names) if not at % HELD_OUT_EVERY},
    )


def task_items(texts: dict[str, str]) -> list[dict[str, Any]]:
    """Passages with their own ending and three of other passages, as many words long."""
    draw = random.Random(0)
    prose = {name: " ".join(re.findall(r"[A-Za-z][a-z']*[,.]?", text)).split() for name, text
             in texts.items()}  # fmt: skip
    long_enough = [name for name, words in prose.items() if len(words) > 4 * PROMPT_WORDS]

    def passage() -> tuple[str, list[str]]:
        name = draw.choice(long_enough)
        at = draw.randrange(len(prose[name]) - PROMPT_WORDS - max(ENDINGS))
        return name, prose[name][at:]

    items = []
    for number in range(ITEMS):
        size = ENDINGS[number % len(ENDINGS)]
        name, words = passage()
        gold = " ".join(words[PROMPT_WORDS : PROMPT_WORDS + size])
        choices = [gold]
        while len(choices) < CHOICES:
            other = " ".join(passage()[1][:size])
            if other not in choices:
                choices.append(other)
        place = number % CHOICES
        choices[0], choices[place] = choices[place], choices[0]
        items.append(
            {
                "prompt": " ".join(words[:PROMPT_WORDS]),
                "choices": choices,
                "gold": place,
                "subject": name.split("/")[1].removesuffix(".txt"),
            }
        )
    return items


def write_problem(work: Path, texts: dict[str, str]) -> Path:
    """The problem file with all checkpoints, and the task's folder."""
    for folder in ("task", "data", "texts"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "texts" / "one.txt").write_text(next(iter(texts.values())), encoding="utf-8")
    data = work / "task" / "items.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in task_items(texts)), "utf-8")
    task = {
        "task": TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        "metadata": {"version": 1},
    }
    (work / "task" / f"{TASK}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    problem = work / "training.yml"
    described = {
        "name": "training",
        "title": "Small Llamas over training",
        "documents": {"kind": "folder", "path": "texts", "too_long": "truncate"},
        "models": [
            {
                "full_id": f"llama-{width}-step{step}",
                "family": f"llama-{width}",
                "source": {"kind": "local", "path": f"llama-{width}-step{step}"},
            }
            for width in WIDTHS
            for step in checkpoint_steps()
        ],
        "probes": [{"kind": "full"}],
    }
    problem.write_text(yaml.safe_dump(described, sort_keys=False), encoding="utf-8")
    return problem


def checkpoint_steps() -> list[int]:
    """Steps after which a checkpoint is kept."""
    return [STEPS_BETWEEN * (number + 1) for number in range(CHECKPOINTS)]


def make_tokenizer(work: Path, texts: dict[str, str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of the texts to learn from; id 0 ends a document."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts.values(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", model_max_length=10**9
    )


def train(width: int, ids: Any, tokenizer: Any, work: Path, progress: Any) -> None:
    """Train one model from nothing; all of its checkpoints, or none, are there already."""
    folders = [work / f"llama-{width}-step{step}" for step in checkpoint_steps()]
    if all((folder / "model.safetensors").is_file() for folder in folders):
        progress("", CHECKPOINTS)
        return
    torch.manual_seed(width)
    draw = np.random.default_rng(width)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=512,
            bos_token_id=None,
            eos_token_id=0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    for first, last in pairwise([0, *checkpoint_steps()]):
        for step in range(first, last):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP)
            starts = draw.integers(0, len(ids) - CONTEXT, BATCH)
            batch = torch.from_numpy(np.stack([ids[at : at + CONTEXT] for at in starts]))
            loss = model(input_ids=batch, labels=batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        folder = folders[last // STEPS_BETWEEN - 1]
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        progress(f"width {width}, loss {loss.item():.2f}", 1)


if __name__ == "__main__":
    main()
