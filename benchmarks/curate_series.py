"""Items of a benchmark over real training runs: is a choice among them worth anything elsewhere?

Trains small Llamas from scratch (three sizes, two seeds each) on documentation of Django, the texts
of minilong, and keeps 16 checkpoints of each. A task that `tokenmart e2lm new` scaffolds gets
multiple-choice items from pages that no model was trained on, of four subjects: `word` (the last word
of a sentence), `phrase` (its last words), `letters` (wrong answers are random letters: easy at once)
and `mislabelled` (the right answer was drawn by lot: nothing can be learnt). `tokenmart eval` scores
every checkpoint on our engine, dbt makes the readings, `tokenmart e2lm curate` chooses items on some
runs and checkpoints and tries them on the others. All texts, models and seeds are fixed.

    python benchmarks/curate_series.py --out benchmarks/curate_series.json

Run again with the same --work, it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
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
from warehouse.progress import Progress, progress_bar  # noqa: E402
from warehouse.sources import Place, PinnedArchive  # noqa: E402

SIZES = {"32w": (32, 2), "64w": (64, 3), "128w": (128, 4)}
"""Name → width and layers."""

SEEDS = (0, 1)
CHECKPOINTS = 16
"""A run with so many has its checkpoints split in two halves by `curate`."""

STEPS = 640
ROWS, TOKENS = 8, 128
"""Of a training step: texts, and tokens of each."""

VOCABULARY = 2048
PEAK_RATE = 4e-3
WARMUP = 32
HELD_OUT = 8
"""Every so-manieth page is for items and no training."""

SUBJECTS = ("word", "phrase", "letters", "mislabelled")
ITEMS = 160
"""Of each subject."""

CHOICES = 4
TASK = "sentence_ends"
READINGS = ("acc", "norm_correct_prob", "loglik_margin_mean")
QUERY = f"""
    select
        regexp_extract(model_id, '^(.*)-step', 1) as model,
        cast(regexp_extract(model_id, 'step([0-9]+)', 1) as bigint) as step,
        item,
        value as score,
        subject,
        answer_characters as characters,
        metric
    from eval_item_metrics
    where condition = '{TASK}-0shot' and metric in {READINGS}
"""
ITEMS_MADE, TRAINED = "items.jsonl", "trained"


@dataclass(frozen=True)
class Run:
    """A training run."""

    size: str
    seed: int

    @property
    def name(self) -> str:
        """As the problem's models have it, without the step."""
        return f"llama-{self.size}-seed{self.seed}"


RUNS = tuple(Run(size, seed) for size, seed in product(SIZES, SEEDS))


def main() -> None:
    """Train, score, choose, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "curate_series.json")
    parser.add_argument("--work", type=Path, help="Keep models and rows here (1 GB).")
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    minutes = {}
    with tempfile.TemporaryDirectory() as scratch:
        work = (arguments.work or Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        train_pages, item_pages = pages()
        tokenizer = make_tokenizer(train_pages)
        ids = np.array(tokenizer("\n\n".join(train_pages))["input_ids"], dtype=np.int64)
        with progress_bar(STEPS * len(RUNS), "steps") as progress:
            losses = {run.name: train(run, ids, tokenizer, work, progress) for run in RUNS}
        minutes["training"] = round((time.monotonic() - started) / 60, 1)
        started = time.monotonic()
        environment = checkout(work, train_pages)
        write_items(work, item_pages, train_pages, environment)
        tokenmart = [sys.executable, "-m", "tokenmart"]
        problem = str(work / "problem.yml")

        def call(*words: str) -> None:
            subprocess.run([*tokenmart, *words], cwd=ROOT, env=environment, check=True)

        task = str(work / TASK)
        call("eval", "--problem", problem, "--tasks", TASK, "--include-path", task, "--device", "cpu")
        minutes["scoring"] = round((time.monotonic() - started) / 60, 1)
        call("dbt", "--quiet", "run", "--select", "+eval_item_metrics")
        call("sql", "--out", str(work / "scores.parquet"), QUERY)
        found = {}
        for reading in READINGS:
            words = ("--items", str(work / "scores.parquet"), "--metric", reading)
            call("e2lm", "curate", *words, "--out", str(work / f"{reading}.json"))
            chosen = json.loads((work / f"{reading}.json").read_text("utf-8"))
            found[reading] = {
                "chosen": len(chosen["items"]),
                **{key: chosen[key] for key in ("of", "folds", "held_out")},
                **{key: rounded(chosen[key]) for key in ("by_subject", "by_length")},
            }
    record = {
        "texts": {"source": "documentation of Django 5.2.8", "licence": "BSD-3-Clause"},
        "versions": {name: version(name) for name in ("lm_eval", "torch", "transformers")},
        "minutes": minutes,
        "training_tokens": STEPS * ROWS * TOKENS,
        "checkpoints": CHECKPOINTS,
        "items": {subject: ITEMS for subject in SUBJECTS},
        "runs": losses,
        "readings": found,
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Six digits are enough to read, and the same on every processor."""
    return [
        {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def pages() -> tuple[list[str], list[str]]:
    """The pages to train on, and those for items."""
    workspace = find_workspace()
    problem = load_problem("minilong", workspace)
    documents = problem.documents
    assert isinstance(documents, PinnedArchive)
    texts = [text for _, text in documents.texts(Place(workspace, problem.name), 2000)]
    held_out = texts[::HELD_OUT]
    return [text for text in texts if text not in held_out], held_out


def make_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of these texts."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


def train(
    run: Run,
    ids: np.ndarray[Any, Any],
    tokenizer: PreTrainedTokenizerFast,
    work: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Train one model and keep its checkpoints; returns its size and last loss, in nats a token."""
    record = work / TRAINED / f"{run.name}.json"
    if record.is_file():
        progress(run.name, STEPS)
        return dict(json.loads(record.read_text("utf-8")))
    width, layers = SIZES[run.size]
    torch.manual_seed(run.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // 16,
            num_key_value_heads=width // 16,
            max_position_embeddings=2 * TOKENS,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_RATE, total_steps=STEPS, pct_start=WARMUP / STEPS, cycle_momentum=False
    )
    # another order of texts for another seed, too
    order = np.random.default_rng(run.seed)
    losses = []
    for step in range(1, STEPS + 1):
        starts = order.integers(0, len(ids) - TOKENS, ROWS)
        batch = torch.from_numpy(np.stack([ids[at : at + TOKENS] for at in starts]))
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if step % (STEPS // CHECKPOINTS) == 0:
            folder = work / TRAINED / f"{run.name}-step{step}"
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        progress(run.name, 1)
    parameters = sum(p.numel() for p in model.parameters())
    found = {
        "parameters": parameters,
        "first_loss": round(float(np.mean(losses[:16])), 3),
        "last_loss": round(float(np.mean(losses[-64:])), 3),
    }
    record.write_text(json.dumps(found), encoding="utf-8")
    return found


def checkout(work: Path, texts: Sequence[str]) -> dict[str, str]:
    """A problem of all checkpoints, and the environment in which its rows lie in `work`."""
    (work / "texts.json").write_text(json.dumps(texts[:2]), encoding="utf-8")
    steps = range(STEPS // CHECKPOINTS, STEPS + 1, STEPS // CHECKPOINTS)
    problem = {
        "name": "series",
        "title": "Checkpoints of small Llamas",
        "documents": {"kind": "json", "path": str(work / "texts.json")},
        "models": [
            {
                "full_id": f"{run.name}-step{step}",
                "family": run.name,
                "dtype": "float32",
                "source": {"kind": "local", "path": str(work / TRAINED / f"{run.name}-step{step}")},
            }
            for run in RUNS
            for step in steps
        ],
        "target": {"kind": "file", "path": str(work / "no_target.json")},
    }
    (work / "problem.yml").write_text(yaml.safe_dump(problem, sort_keys=False), encoding="utf-8")
    return {
        **os.environ,
        "TOKENMART_DATA": str(work / "data"),
        "TOKENMART_DATABASE": str(work / "tokenmart.duckdb"),
        "DBT_TARGET_PATH": str(work / "target"),
        "DBT_LOG_PATH": str(work / "logs"),
    }


def write_items(
    work: Path, item_pages: Sequence[str], train_pages: Sequence[str], environment: dict[str, str]
) -> None:
    """Scaffold the task, and put our items in place of its own."""
    shutil.rmtree(work / TASK, ignore_errors=True)
    words = ["e2lm", "new", TASK, "--kind", "multiple-choice", "--folder", str(work)]
    subprocess.run([sys.executable, "-m", "tokenmart", *words], cwd=ROOT, env=environment, check=True)
    rows = [json.dumps(item) for item in make_items(item_pages, train_pages)]
    (work / TASK / ITEMS_MADE).write_text("\n".join(rows) + "\n", encoding="utf-8")


def make_items(
    item_pages: Sequence[str], train_pages: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Items of all subjects, in the form of the scaffold's, with their subject."""
    draw = random.Random(0)
    known = Counter(word for page in train_pages for word in re.findall(r"[a-z]{4,12}", page))
    common = sorted(word for word, count in known.items() if count >= 50)
    found = [s for page in item_pages for s in sentences(page)]
    draw.shuffle(found)
    by_last_word = [s for s in found if s[-1] in common]
    ends = [" ".join(s[-4:]) for s in found]
    for number, sentence in zip(range(ITEMS * len(SUBJECTS)), by_last_word, strict=False):
        subject = SUBJECTS[number % len(SUBJECTS)]
        kept = 4 if subject == "phrase" else 1
        answer = " ".join(sentence[-kept:])
        others: set[str] = set()
        while len(others) < CHOICES - 1:
            if subject == "phrase":
                other = draw.choice(ends)
            elif subject == "letters":
                other = "".join(draw.choices(string.ascii_lowercase, k=len(answer)))
            else:
                other = draw.choice(common)
            if other != answer:
                others.add(other)
        choices = [answer, *sorted(others)]
        draw.shuffle(choices)
        gold = choices.index(answer)
        if subject == "mislabelled":
            gold = draw.randrange(CHOICES)
        yield {
            "question": " ".join(sentence[:-kept]),
            "choices": choices,
            "gold": gold,
            "subject": subject,
        }


def sentences(page: str) -> Iterator[list[str]]:
    """The words of sentences of plain prose, without their full stop."""
    for paragraph in re.split(r"\n\s*\n", page):
        text = " ".join(paragraph.split())
        for sentence in re.findall(r"(?:^|(?<=\. ))([A-Z][^.:`*|<>=_\\]+)\.(?= |$)", text):
            words = sentence.split()
            if 9 <= len(words) <= 40:
                yield words


if __name__ == "__main__":
    main()
