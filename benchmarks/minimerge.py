"""The problem minimerge from training to the reproduced winner, by the documented commands, timed.

The open round is BoolQ and MAWPS, downloaded; the two hidden rounds are generated items. Finished
commands aren't run again, so that the same command resumes. The committed figures were measured
with an earlier revision, which their field `revision` names.

    python benchmarks/minimerge.py --folder /tmp/minimerge
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
from marked_tables import ROOT, marked, replace_marked, table

from warehouse.files import write_whole
from warehouse.store.provenance import code_revision

OUT = ROOT / "benchmarks" / "minimerge.json"
BLOCK = "benchmarks/minimerge.json"
EXPERTS = ROOT / "docs" / "tutorials" / "minimerge_experts.py"
SKILLS = ("reading", "maths", "code")
HIDDEN = {"leaderboard": "11", "final": "12"}
"""Hidden round → random seed of its items."""

OPEN_TASKS = ["real_boolq", "real_mawps"]
MARTS = ["dbt", "run", "--quiet", "--select", "+tag:rankings", "+eval_metrics"]


def main() -> None:
    """Run what is missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="Where everything is kept.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--items", type=int, default=300, help="Open items of a set.")
    parser.add_argument("--hidden-items", type=int, default=100, help="Items of a hidden set.")
    arguments = parser.parse_args()
    figures = run_all(arguments.folder.resolve(), arguments.items, arguments.hidden_items)
    write_whole(arguments.out, json.dumps(figures, indent=1) + "\n")
    if arguments.out.resolve() == OUT:
        page = ROOT / "docs" / "tutorials" / "ranking_merged_models.md"
        replace_marked(page, BLOCK, docs_block(figures))
    print(f"written {arguments.out}: {figures['minutes']} minutes")


def docs_block(figures: dict[str, Any]) -> str:
    """Entries by their overall rank: scores with intervals, accuracies, costs of the open round."""
    accuracy = {(row["task"], row["entry"]): row["accuracy"] for row in figures["accuracy"]}
    of_round: dict[str, dict[str, dict[str, Any]]] = {}
    for row in figures["rankings"]:
        of_round.setdefault(row["round"], {})[row["entry"]] = row
    ranked = [row for row in of_round["overall"].values() if row["rank"] is not None]
    overall = sorted(ranked, key=lambda row: (row["rank"], row["entry"]))
    open_costs = {row["entry"]: row for row in figures["ranking_fronts"] if row["round"] == "open"}
    tasks = {name: name.partition("_")[2] for name in figures["open_tasks"]}
    tasks |= {
        row["task"]: f"{row['task'].rpartition('_')[2]}, final"
        for skill in SKILLS
        for row in figures["accuracy"]
        if row["round"] == "final" and row["task"].endswith(skill)
    }
    heads = ["overall", "entry", "score", "rank interval", "open", "leaderboard", "final"]
    heads += [*tasks.values(), "s, open", "GB, open"]
    lines = []
    for row in overall:
        entry = row["entry"]
        cost = open_costs[entry]
        cells = [
            f"{row['rank']}",
            f"`{entry}`",
            f"{row['score']:.2f} ({row['score_low']:.2f} to {row['score_high']:.2f})",
            f"{row['rank_low']:.0f} to {row['rank_high']:.0f}",
            *(f"{of_round[name][entry]['rank']}" for name in ("open", "leaderboard", "final")),
            *(f"{accuracy[task, entry]:.2f}" for task in tasks),
            f"{cost['seconds']:.0f}{' (front)' if cost['on_time_front'] else ''}",
            f"{cost['peak_bytes'] / 1e9:.1f}{' (front)' if cost['on_space_front'] else ''}",
        ]
        lines.append(dict(zip(heads, cells, strict=True)))
    text = ("entry", "rank interval")
    columns = {head if head in text else f"{head}:": f"{{{head}}}" for head in heads}
    return marked(BLOCK, table(columns, lines))


def run_all(folder: Path, items: int, hidden_items: int) -> dict[str, Any]:
    """Every command in its order; what was found and what it took."""
    took: dict[str, dict[str, Any]] = {}

    def run(name: str, *words: str) -> str:
        """One command, unless an earlier run finished it; its output."""
        record = folder / "stages" / f"{name.replace(' ', '-')}.json"
        if not record.is_file():
            print(f"{datetime.now():%H:%M:%S} {name}", flush=True)
            started = time.monotonic()
            done = subprocess.run(
                [sys.executable, *words], env=environment, stdout=subprocess.PIPE, text=True
            )
            if done.returncode:
                sys.exit(f"{name}: failed")
            seconds = round(time.monotonic() - started, 1)
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, json.dumps({"seconds": seconds, "output": done.stdout}))
        took[name] = json.loads(record.read_text())
        return str(took[name].pop("output"))

    (folder / "data").mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TOKENMART_HOME": str(ROOT),
        "TOKENMART_DATA": str(folder / "data"),
        "TOKENMART_DATABASE": str(folder / "tokenmart.duckdb"),
    }
    tokenmart = ("-m", "tokenmart")
    ours = ("--problem", "minimerge")
    run("train", str(EXPERTS), "train")
    run("check", *tokenmart, "merge", "check", *ours)
    run("merge", *tokenmart, "merge", "run", *ours)
    open_tasks = folder / "open"
    words = ["--out", str(open_tasks), "--count", str(items), "--real", "boolq", "--real", "mawps"]
    run("tasks", *tokenmart, "merge", "tasks", *words)
    rounds = {"open": (open_tasks, OPEN_TASKS)}
    for name, seed in HIDDEN.items():
        words = [str(folder / name), "--part", "hidden", "--seed", seed]
        run(f"tasks {name}", str(EXPERTS), "tasks", *words, "--count", str(hidden_items))
        rounds[name] = (folder / name, [f"{name}_{skill}" for skill in SKILLS])
    for name, (place, tasks) in rounds.items():
        words = ["--round", name, "--tasks", ",".join(tasks), "--include-path", str(place)]
        run(f"evaluate {name}", *tokenmart, "merge", "eval", *ours, *words)
    run("rank", *tokenmart, *MARTS)
    found = json.loads(run("show", *tokenmart, "rank", "show", *ours, "--json"))
    winner = next(row["entry"] for row in found["rankings"] if row["round"] == "overall")
    bundle = folder / "winner"
    run("bundle", *tokenmart, "merge", "bundle", *ours, "--merge", winner, "--out", str(bundle))
    words = [str(bundle), "--include-path", str(open_tasks)]
    reproduction = run("reproduce", *tokenmart, "merge", "reproduce", *words)
    return {
        "command": f"python benchmarks/minimerge.py --folder FOLDER --items {items}",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cores": os.cpu_count(),
        "minutes": round(sum(each["seconds"] for each in took.values()) / 60, 1),
        "stages": took,
        "open_tasks": OPEN_TASKS,
        "open_answers": answers(open_tasks),
        "items": {"open": items, **dict.fromkeys(HIDDEN, hidden_items)},
        "accuracy": accuracy(folder / "tokenmart.duckdb", "minimerge"),
        **found,
        "cannot_be_told_apart": alike(found),
        "winner": winner,
        "reproduction": reproduction.splitlines(),
    }


def answers(tasks: Path) -> dict[str, dict[str, int]]:
    """Multiple-choice task of the open round → how many items have each answer."""
    found: dict[str, dict[str, int]] = {}
    for file in sorted(tasks.glob("*.jsonl")):
        items = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        if all("choices" in item for item in items):
            counts = Counter(item["choices"][item["gold"]] for item in items)
            found[file.stem] = dict(sorted(counts.items()))
    return found


def accuracy(database: Path, problem: str) -> list[dict[str, Any]]:
    """Accuracy of each entry on each task of each round, and its standard error."""
    query = """
        select c.round, c.task, m.model_id as entry, m.value as accuracy, m.stderr, m.items
        from eval_metrics as m
        inner join (select distinct round, task, problem from intermediate.int_ranking_columns) as c
            using (task, problem)
        where m.metric = 'acc' and m.part = 'all' and m.problem = $1
        order by all
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        rows: list[dict[str, Any]] = (
            connection.sql(query, params=[problem]).to_arrow_table().to_pylist()
        )
    return rows


def alike(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Round → its pairs, and those whose order isn't the same in 97.5% of the draws."""
    pairs: dict[str, list[Any]] = {}
    for row in found["ranking_pairs"]:
        pairs.setdefault(row["round"], []).append(row)
    return {
        name: {
            "pairs": len(rows),
            "alike": [
                [r["entry"], r["other_entry"]]
                for r in rows
                if r["verdict"] == "not-distinguishable"
            ],
        }
        for name, rows in pairs.items()
    }


if __name__ == "__main__":
    main()
