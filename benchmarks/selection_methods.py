"""Methods of choosing items, each on models that had no part in the choice: one table.

Three series. The ladder and DCLM publish scores of whole tasks: there an item is a task, and a
choice a set of tasks. The third is trained here, for the recipes: small Llamas of two widths and
two seeds on the guides and references of Django's documentation (as science) or on its release
notes (as web), whose items ask for the end of sentences of guides that no model was trained on; in
every fourth item the right answer was drawn at random. A stopped run resumes in the same `--work`
folder.

    python benchmarks/selection_methods.py --work methods_run
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import curate_series as series
import duckdb
import numpy as np
from marked_tables import ROOT, marked, replace_marked

from plugins.benchmarks.items.curation import METHODS, Choice, curate
from plugins.benchmarks.items.item_scores import read_items
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem
from warehouse.progress import progress_bar
from warehouse.sources.documents import PinnedArchive
from warehouse.sources.place import Place

OUT = ROOT / "benchmarks" / "selection_methods.json"
PAGE = ROOT / "docs" / "explanation" / "signal_of_benchmarks.md"
BLOCK = "benchmarks/selection_methods.json"
STATISTICS = {"sq": "SQ", "cs": "CS", "weighted": "0.5 SQ + 0.4 CS", "decision_accuracy": "decides"}

FOLDS = 2
"""Halves of the runs: the pairs that are decided lie within one."""

# fewer than 16, so that no half of the checkpoints is held out in addition to the runs
LADDER = """
    with placed as (
        select
            *,
            ceil(15 * tokens / max(tokens) over (partition by model)) as part
        from 'data/published/olmo_ladder.parquet'
        where metric in ('accuracy', 'soft')
            and model not like '%-rerun' and model not like '%-final'
    )

    select
        model,
        max(tokens) as tokens,
        benchmark as item,
        arg_max(score, tokens) filter (where metric = 'accuracy') as score,
        arg_max(score, tokens) filter (where metric = 'soft') as confidence
    from placed
    group by model, part, benchmark
"""
# a recipe's three sizes are its checkpoints
DCLM = """
    with means as (
        select
            recipe as model,
            case size when '400M-1x' then 1 when '1B-1x' then 2 when '7B-1x' then 3 end as step,
            benchmark as item,
            avg(score) as score
        from 'data/published/dclm.parquet'
        where metric = 'accuracy' and recipe != ''
        group by all
    )

    select
        *,
        score as confidence
    from means
    where step is not null
    qualify count(distinct step) over (partition by model) = 3
"""
WIDTHS, SEEDS, RECIPES = (32, 64), (0, 1), ("science", "web")
STEPS, CHECKPOINTS, ITEMS = 200, 10, 200
TASK, PROMPTS = "sentence_ends", "sentence_starts"
METRIC = "loglik_margin_mean"
SCORES = f"""
    with items as (
        select
            regexp_extract(model_id, '^(.*)-step', 1) as model,
            cast(regexp_extract(model_id, 'step([0-9]+)', 1) as bigint) as step,
            *
        from eval_item_metrics
    ),

    prompts as (
        select
            model,
            item,
            -value as prompt_score
        from items
        where condition = '{PROMPTS}-0shot' and metric = 'bits_per_byte'
    )

    select
        score.model,
        score.step,
        score.item,
        score.value as score,
        score.subject,
        score.answer_characters as characters,
        regexp_extract(score.model, 'science|web') as recipe,
        regexp_extract(score.model, '([0-9]+)w', 1) as size,
        regexp_extract(score.model, 'seed[0-9]+') as architecture,
        sure.value as confidence,
        prompts.prompt_score
    from items as score
    inner join items as sure using (model, step, item, condition)
    left join prompts using (model, item)
    where score.condition = '{TASK}-0shot' and score.metric = '{METRIC}'
        and sure.metric = 'norm_correct_prob'
"""


def main() -> None:
    """Try the methods on each series, and write the figures and their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="Folder of models and rows.")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "command": "python benchmarks/selection_methods.py --work methods_run",
        "series": {
            "ladder": tried(table(LADDER, work / "ladder.parquet"), 5, 19),
            "dclm": tried(table(DCLM, work / "dclm.parquet"), 5, 50),
        },
    }
    scores, record["trained"] = trained_series(work)
    record["series"]["trained here"] = tried(scores, 60, 180)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    replace_marked(PAGE, BLOCK, marked(BLOCK, docs_table(record).splitlines()))


def table(sql: str, path: Path) -> Path:
    """A table of item scores from a published one."""
    duckdb.sql(f"copy ({sql}) to '{path}'")
    return path


def tried(path: Path, fewest: int, most: int) -> dict[str, Any]:
    """Each method's statistics where it had no part, and how many items it takes of all."""
    workspace = find_workspace(ROOT)
    scores = read_items(path, None)
    methods = {}
    for method, column in METHODS.items():
        if column is None or column in scores.has:
            choice = Choice(fewest, most, method, folds=FOLDS)
            found = curate(scores, workspace, choice, seed=0)
            held_out = {name: found["held_out"][name] for name in STATISTICS}
            methods[method] = {"chosen": len(found["items"]), **held_out}
    return {"items": scores.items, "models": len(scores.models), "methods": methods}


def trained_series(work: Path) -> tuple[Path, dict[str, Any]]:
    """The item scores of the models that are trained here, and what they are."""
    texts = pages()
    item_pages, texts["science"] = (
        texts["science"][:: series.HELD_OUT],
        [text for at, text in enumerate(texts["science"]) if at % series.HELD_OUT],
    )
    tokenizer = series.make_tokenizer([*texts["science"][:30], *texts["web"][:30]])
    runs = {
        f"{recipe}-{width}w-seed{seed}": (recipe, width, seed)
        for width, seed, recipe in product(WIDTHS, SEEDS, RECIPES)
    }
    losses = work / "losses.json"
    known = json.loads(losses.read_text("utf-8")) if losses.exists() else {}
    ids = {
        recipe: np.array(tokenizer("\n\n".join(texts[recipe]))["input_ids"], dtype=np.int64)
        for recipe in RECIPES
    }
    started = time.monotonic()
    with progress_bar(STEPS * len(runs), "steps") as progress:
        for name, (recipe, width, seed) in runs.items():
            if name not in known:
                known[name] = series.train(
                    name, width, seed, ids=ids[recipe], tokenizer=tokenizer, work=work,
                    progress=progress, steps=STEPS, checkpoints=CHECKPOINTS,
                )  # fmt: skip
                losses.write_text(json.dumps(known), encoding="utf-8")
    environment = series.checkout(work, texts["science"], list(runs), STEPS, CHECKPOINTS)

    def tokenmart(*words: str | Path) -> None:
        command = [sys.executable, "-m", "tokenmart", *map(str, words)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    scores = work / "scores.parquet"
    if not scores.exists():
        items = list(series.make_items(item_pages, ITEMS))
        lay_tasks(work, items, tokenmart)
        evaluated = ["eval", "--problem", work / "problem.yml", "--device", "cpu"]
        tokenmart(*evaluated, "--tasks", TASK, "--include-path", work / TASK, "--subject", "label")
        last = [word for name in runs for word in ("--model", f"{name}-step{STEPS}")]
        tokenmart(*evaluated, "--tasks", PROMPTS, "--include-path", work / PROMPTS, *last)
        tokenmart("dbt", "--quiet", "run", "--select", "+eval_item_metrics")
        tokenmart("sql", "--out", scores, SCORES)
    return scores, {
        "runs": known,
        "training_tokens": STEPS * series.ROWS * series.TOKENS,
        "checkpoints": CHECKPOINTS,
        "items": ITEMS,
        "metric": METRIC,
        "texts": {recipe: sum(map(len, texts[recipe])) for recipe in RECIPES},
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def pages() -> dict[str, list[str]]:
    """Guides and references, and release notes."""
    workspace = find_workspace(ROOT)
    problem = load_problem("minilong", workspace)
    documents = problem.documents
    assert isinstance(documents, PinnedArchive)
    texts = list(documents.texts(Place(workspace, problem.name), 2000))
    return {
        "science": [text for name, text in texts if not name.startswith("docs/releases/")],
        "web": [text for name, text in texts if name.startswith("docs/releases/")],
    }


def lay_tasks(work: Path, items: list[dict[str, Any]], tokenmart: Any) -> None:
    """The items as a task of multiple choice, and their prompts as texts to be read whole."""
    for name in (TASK, PROMPTS):
        shutil.rmtree(work / name, ignore_errors=True)
    tokenmart("e2lm", "new", TASK, "--kind", "multiple-choice", "--folder", work)
    rows = "".join(json.dumps(item) + "\n" for item in items)
    (work / TASK / "items.jsonl").write_text(rows, encoding="utf-8")
    (work / PROMPTS).mkdir()
    prompts = "".join(json.dumps({"text": item["question"]}) + "\n" for item in items)
    (work / PROMPTS / "prompts.jsonl").write_text(prompts, encoding="utf-8")
    (work / PROMPTS / f"{PROMPTS}.yaml").write_text(
        f"task: {PROMPTS}\n"
        "dataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {work / PROMPTS / 'prompts.jsonl'}}}}}\n"
        "test_split: test\n"
        "output_type: loglikelihood_rolling\n"
        'doc_to_text: ""\n'
        'doc_to_target: "{{text}}"\n'
        "metric_list:\n"
        "  - {metric: bits_per_byte}\n",
        encoding="utf-8",
    )


def docs_table(record: dict[str, Any]) -> str:
    """Methods in rows, statistics of each series in columns."""
    columns = [
        (name, statistic)
        for name, found in record["series"].items()
        for statistic in STATISTICS
        if any(row[statistic]["compared"] for row in found["methods"].values())
    ]
    names = " | ".join(f"{name}: {STATISTICS[statistic]}" for name, statistic in columns)
    lines = [f"| method | {names} |", "|---|" + "---:|" * len(columns)]

    def cells(method: str, variant: str) -> str:
        values = []
        for name, statistic in columns:
            row = record["series"][name]["methods"].get(method)
            value = None if row is None else row[statistic][variant]
            values.append("–" if value is None else f"{value:.3f}")
        return " | ".join(values)

    lines += [
        f"| all items | {cells('signal', 'all')} |",
        f"| as many random ones as `signal` takes | {cells('signal', 'random')} |",
    ]
    lines += [f"| `{method}` | {cells(method, 'chosen')} |" for method in METHODS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
