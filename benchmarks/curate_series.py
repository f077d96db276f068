"""Items of a benchmark over real training runs: is a choice among them worth anything elsewhere?

Trains small Llamas from scratch (two sizes, two seeds each) on the documentation of Django, where
minilong's texts are from, and keeps 16 checkpoints of each. `tokenmart e2lm new` scaffolds a task
that gets 300 items from pages no model was trained on: how does this sentence end? The answer is
its last one to eight words, the wrong choices end other sentences. In every fourth item the right
answer is drawn by lot, as if it was mislabelled: nothing can be learnt there. `tokenmart eval`
scores every checkpoint, dbt computes the metrics, `tokenmart e2lm curate` chooses items on some
runs and checkpoints and evaluates them on the others. All texts, models and seeds are fixed.

    python benchmarks/curate_series.py      # 11 minutes; writes benchmarks/curate_series.json
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import numpy as np  # noqa: E402
import yaml  # noqa: E402
from marked_tables import table  # noqa: E402

from warehouse.paths import find_workspace  # noqa: E402
from warehouse.problem.spec import load_problem  # noqa: E402
from warehouse.sources.folders import ProblemFolders  # noqa: E402
from warehouse.sources.packages import PinnedArchive  # noqa: E402

OUT = ROOT / "benchmarks" / "curate_series.json"
RUNS = tuple(product((48, 96), (0, 1)))
"""Width and seed."""

LAYERS = 3
CHECKPOINTS = 16
"""A run with this number of checkpoints is split in two halves by `curate`."""

STEPS = 320
KEPT = range(STEPS // CHECKPOINTS, STEPS + 1, STEPS // CHECKPOINTS)
ROWS, TOKENS = 8, 128
"""Of a training step: texts, and tokens of each."""

VOCABULARY = 2048
TOKENIZER_PAGES = 40
PEAK_RATE = 4e-3
HELD_OUT = 5
"""Every so-manieth page is for items and no training."""

ITEMS = 300
CHOICES = 4
MOST_WORDS = 8
MISLABELLED = 4
"""Every so-manieth item."""

TASK = "sentence_ends"
METHODS = ("acc", "acc_norm", "norm_correct_prob", "correct_loglik")
SCORES = f"""
    select
        regexp_extract(model_id, '^(.*)-step', 1) as model,
        cast(regexp_extract(model_id, 'step([0-9]+)', 1) as bigint) as step,
        item,
        value as score,
        subject,
        answer_characters as characters,
        metric
    from eval_item_metrics
    where condition = '{TASK}-0shot' and metric in {METHODS}
"""
LENGTHS = f"""
    select
        metric,
        length_band as characters,
        count(distinct item) as items,
        round(avg(value), 4) as score
    from eval_item_metrics
    where
        model_id like '%-step{STEPS}' and subject = 'sound'
        and metric in ('acc', 'acc_norm', 'acc_per_token', 'bpb')
    group by metric, length_band
    order by metric, min(answer_characters)
"""


def main() -> None:
    """Train, score, choose, and write the figures."""
    with tempfile.TemporaryDirectory() as scratch:
        record = measured(Path(scratch))
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def measured(work: Path) -> dict[str, Any]:
    """The figures; models, rows and marts lie in `work`."""
    from tiny_models import make_tokenizer
    from transformers import AutoTokenizer

    started = time.monotonic()
    train_pages, item_pages = pages()
    make_tokenizer(work / "tokenizer", False, VOCABULARY, train_pages[:TOKENIZER_PAGES])
    tokenizer = AutoTokenizer.from_pretrained(work / "tokenizer")
    ids = np.array(tokenizer("\n\n".join(train_pages))["input_ids"], dtype=np.int64)
    losses = {run_name(*run): train(*run, ids, tokenizer, work) for run in RUNS}
    trained = time.monotonic()
    environment = checkout(work, train_pages)

    def tokenmart(*words: str | Path) -> None:
        command = [sys.executable, "-m", "tokenmart", *map(str, words)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    def curated(method: str) -> dict[str, Any]:
        """What `curate` found, without the single items."""
        words = ("--items", work / "scores.parquet", "--metric", method)
        tokenmart("e2lm", "curate", *words, "--out", work / f"{method}.json")
        result = json.loads((work / f"{method}.json").read_text("utf-8"))
        return {
            "chosen": len(result["items"]),
            "folds": len(result["folds"]),
            "held_out": result["held_out"],
            "by_subject": result["by_subject"],
        }

    tokenmart("e2lm", "new", TASK, "--kind", "multiple-choice", "--folder", work)
    rows = [json.dumps(item) for item in make_items(item_pages)]
    (work / TASK / "items.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    task = ("--tasks", TASK, "--include-path", work / TASK, "--subject", "label")
    tokenmart("eval", "--problem", work / "problem.yml", *task, "--device", "cpu")
    scored = time.monotonic()
    tokenmart("dbt", "--quiet", "run", "--select", "+eval_item_metrics")
    tokenmart("sql", "--out", work / "scores.parquet", SCORES)
    tokenmart("sql", "--out", work / "lengths.json", LENGTHS)
    return {
        "command": "python benchmarks/curate_series.py",
        "texts": {"source": "documentation of Django 5.2.8", "licence": "BSD-3-Clause"},
        "versions": {name: version(name) for name in ("lm_eval", "torch", "transformers")},
        "minutes": {
            "training": round((trained - started) / 60, 1),
            "scoring": round((scored - trained) / 60, 1),
        },
        "training_tokens": STEPS * ROWS * TOKENS,
        "checkpoints": CHECKPOINTS,
        "items": ITEMS,
        "mislabelled": len(range(0, ITEMS, MISLABELLED)),
        "runs": losses,
        "scoring_methods": {method: curated(method) for method in METHODS},
        "by_length_at_the_end": json.loads((work / "lengths.json").read_text("utf-8")),
    }


def docs_tables(record: dict[str, Any]) -> tuple[str, str]:
    """The tables of signal_of_benchmarks.md: value of a choice, scores by length."""
    columns = {
        "scoring method": "`{method}`",
        "all items:": "{all:.3f}",
        "random items:": "{random:.3f}",
        "chosen items:": "{chosen:.3f}",
        "chosen, in sample:": "{in_sample:.3f}",
        "optimism:": "{optimism:+.3f}",
        "better than all:": "{better} of {compared}",
    }
    worth = table(
        columns,
        (
            {**result["held_out"]["sq"], "method": method}
            for method, result in record["scoring_methods"].items()
        ),
    )
    by_metric: dict[str, dict[str, dict[str, Any]]] = {}
    for row in record["by_length_at_the_end"]:
        by_metric.setdefault(row["metric"], {})[row["characters"]] = row
    bands = list(by_metric["acc"])
    columns = {"characters of the right answer": "{of}", **{f"{b}:": f"{{{b}}}" for b in bands}}
    counts = {band: str(row["items"]) for band, row in by_metric["acc"].items()}
    scores = (
        {"of": f"`{metric}`", **{band: f"{row['score']:.2f}" for band, row in of.items()}}
        for metric, of in by_metric.items()
    )
    lengths = table(columns, [{"of": "items", **counts}, *scores])
    return "\n".join(worth).replace("-0.", "−0."), "\n".join(lengths)


def pages() -> tuple[list[str], list[str]]:
    """The pages to train on, and those for items."""
    workspace = find_workspace()
    problem = load_problem("minilong", workspace)
    documents = problem.documents
    assert isinstance(documents, PinnedArchive)
    texts = [text for _, text in documents.texts(ProblemFolders(workspace, problem.name), 2000)]
    return [text for at, text in enumerate(texts) if at % HELD_OUT], texts[::HELD_OUT]


def run_name(width: int, seed: int) -> str:
    """As the problem's models have it, without the step."""
    return f"llama-{width}w-seed{seed}"


def train(width: int, seed: int, ids: Any, tokenizer: Any, work: Path) -> dict[str, Any]:
    """Train one model and keep its checkpoints; returns its size and losses, in nats a token."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=LAYERS,
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
        optimizer, PEAK_RATE, total_steps=STEPS, pct_start=0.05, cycle_momentum=False
    )
    # another order of texts for another seed, too
    order = np.random.default_rng(seed)
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
        if step in KEPT:
            folder = work / "trained" / f"{run_name(width, seed)}-step{step}"
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            print(f"{folder.name}: {losses[-1]:.2f} nats", flush=True)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "first_loss": round(float(np.mean(losses[:16])), 3),
        "last_loss": round(float(np.mean(losses[-64:])), 3),
    }


def checkout(work: Path, texts: Sequence[str]) -> dict[str, str]:
    """A problem of all checkpoints, and the environment in which its rows lie in `work`."""
    (work / "data").mkdir()
    (work / "texts.json").write_text(json.dumps(texts[:2]), encoding="utf-8")
    problem = {
        "name": "series",
        "title": "Checkpoints of small Llamas",
        "documents": {"kind": "json", "path": str(work / "texts.json")},
        "models": [
            {
                "full_id": f"{run_name(*run)}-step{step}",
                "family": run_name(*run),
                "dtype": "float32",
                "source": {
                    "kind": "local",
                    "path": str(work / "trained" / f"{run_name(*run)}-step{step}"),
                },
            }
            for run, step in product(RUNS, KEPT)
        ],
        "probes": [{"kind": "full"}],
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


def make_items(item_pages: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Items in the form of the scaffold's, with their label: sound or mislabelled."""
    draw = random.Random(0)
    shuffled = sorted({tuple(words) for page in item_pages for words in sentences(page)})
    draw.shuffle(shuffled)

    def end(sentence: Sequence[str]) -> str:
        return " ".join(sentence[-draw.randint(1, MOST_WORDS) :])

    for number, sentence in zip(range(ITEMS), shuffled, strict=False):
        answer = end(sentence)
        choices = [answer]
        while len(choices) < CHOICES:
            other = end(draw.choice(shuffled))
            choices += [other] if other not in choices else []
        draw.shuffle(choices)
        mislabelled = number % MISLABELLED == 0
        yield {
            "question": " ".join(sentence).removesuffix(answer).strip(),
            "choices": choices,
            "gold": draw.randrange(CHOICES) if mislabelled else choices.index(answer),
            "label": "mislabelled" if mislabelled else "sound",
        }


def sentences(page: str) -> Iterator[list[str]]:
    """The words of sentences of plain prose, without their full stop."""
    for paragraph in re.split(r"\n\s*\n", page):
        text = " ".join(paragraph.split())
        for sentence in re.findall(r"(?:^|(?<=\. ))([A-Z][^.:`*|<>=_\\]+)\.(?= |$)", text):
            words = sentence.split()
            if 12 <= len(words) <= 40:
                yield words


if __name__ == "__main__":
    main()
