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

ITEMS, HIDDEN_ITEMS = 300, 100
"""Of an open and of a hidden set."""

OPEN_TASKS = ["real_boolq", "real_mawps"]
MARTS = ["dbt", "run", "--quiet", "--select", "+tag:rankings", "+eval_metrics"]


def main() -> None:
    """Run what is missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="Where everything is kept.")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    figures = run_all(arguments.folder.resolve())
    write_whole(arguments.out, json.dumps(figures, indent=1) + "\n")
    if arguments.out.resolve() == OUT:
        page = ROOT / "docs" / "tutorials" / "ranking_merged_models.md"
        replace_marked(page, BLOCK, docs_block(figures))
    print(f"written {arguments.out}: {figures['minutes']} minutes")


def docs_block(figures: dict[str, Any]) -> str:
    """Entries by their overall rank: scores with intervals, accuracies, costs of the open round."""
    accuracy = {(row["task"], row["entry"]): row["accuracy"] for row in figures["accuracy"]}
    rows = {(row["round"], row["entry"]): row for row in figures["rankings"]}
    costs = {row["entry"]: row for row in figures["ranking_fronts"] if row["round"] == "open"}
    final = sorted({row["task"] for row in figures["accuracy"] if row["round"] == "final"})
    tasks = {name: name.partition("_")[2] for name in figures["open_tasks"]}
    tasks |= {name: f"{skill}, final" for skill in SKILLS for name in final if name.endswith(skill)}
    columns = {
        "overall:": "{rank}",
        "entry": "`{entry}`",
        "score:": "{score:.2f} ({score_low:.2f} to {score_high:.2f})",
        "rank interval": "{rank_low:.0f} to {rank_high:.0f}",
        **{f"{name}:": f"{{{name}}}" for name in ("open", *HIDDEN)},
        **{f"{head}:": f"{{{task}:.2f}}" for task, head in tasks.items()},
        "s, open:": "{seconds:.0f}{on_time}",
        "GB, open:": "{gigabytes:.1f}{on_space}",
    }
    ranked = [row for (name, _), row in rows.items() if name == "overall" and row["rank"]]
    lines = []
    for row in sorted(ranked, key=lambda row: (row["rank"], row["entry"])):
        entry, cost = row["entry"], costs[row["entry"]]
        lines.append(
            {
                **row,
                **{name: rows[name, entry]["rank"] for name in ("open", *HIDDEN)},
                **{task: accuracy[task, entry] for task in tasks},
                "seconds": cost["seconds"],
                "gigabytes": cost["peak_bytes"] / 1e9,
                "on_time": " (front)" if cost["on_time_front"] else "",
                "on_space": " (front)" if cost["on_space_front"] else "",
            }
        )
    return marked(BLOCK, table(columns, lines))


def run_all(folder: Path) -> dict[str, Any]:
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
    words = ["--out", str(open_tasks), "--count", str(ITEMS), "--real", "boolq", "--real", "mawps"]
    run("tasks", *tokenmart, "merge", "tasks", *words)
    rounds = {"open": (open_tasks, OPEN_TASKS)}
    for name, seed in HIDDEN.items():
        words = [str(folder / name), "--part", "hidden", "--seed", seed]
        run(f"tasks {name}", str(EXPERTS), "tasks", *words, "--count", str(HIDDEN_ITEMS))
        rounds[name] = (folder / name, [f"{name}_{skill}" for skill in SKILLS])
    for name, (place, tasks) in rounds.items():
        words = ["--round", name, "--tasks", ",".join(tasks), "--include-path", str(place)]
        run(f"evaluate {name}", *tokenmart, "merge", "eval", *ours, *words)
    run("rank", *tokenmart, *MARTS)
    ranked = json.loads(run("show", *tokenmart, "rank", "show", *ours, "--json"))
    winner = next(row["entry"] for row in ranked["rankings"] if row["round"] == "overall")
    bundle = folder / "winner"
    run("bundle", *tokenmart, "merge", "bundle", *ours, "--merge", winner, "--out", str(bundle))
    words = [str(bundle), "--include-path", str(open_tasks)]
    reproduction = run("reproduce", *tokenmart, "merge", "reproduce", *words)
    return {
        "command": "python benchmarks/minimerge.py --folder FOLDER",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cores": os.cpu_count(),
        "minutes": round(sum(each["seconds"] for each in took.values()) / 60, 1),
        "stages": took,
        "open_tasks": OPEN_TASKS,
        "items": {"open": ITEMS, **dict.fromkeys(HIDDEN, HIDDEN_ITEMS)},
        "accuracy": accuracy(folder / "tokenmart.duckdb", "minimerge"),
        **ranked,
        "winner": winner,
        "reproduction": reproduction.splitlines(),
    }


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


if __name__ == "__main__":
    main()
