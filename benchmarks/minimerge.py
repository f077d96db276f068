"""The problem minimerge from training to the reproduced winner, by the documented commands, timed.

Two sides with a data folder each: participants train, merge and score the open round; the organiser
takes over their merges and open results, and alone holds the items of leaderboard and final.
A stage that is done isn't run again, so that the same command goes on after a crash.

    python benchmarks/minimerge.py --folder /tmp/minimerge --out benchmarks/minimerge.json
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb

from extract.merging.watchdog import run_within
from warehouse.merging.problem import Limits
from warehouse.paths import find_workspace
from warehouse.store.provenance import code_revision

ROOT = Path(__file__).resolve().parents[1]
SKILLS = ("reading", "maths", "code")
HIDDEN = ("leaderboard", "final")
OVERLAP = 0.25
MARTS = ["--select", "+path:models/marts/rankings", "+eval_metrics"]
SHARED_CACHE = ("archives", "checkpoints", "weights")
HEARTBEAT_SECONDS = 2.0


@dataclass(frozen=True)
class Side:
    """A data folder and a database that only one party opens."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def database(self) -> Path:
        return self.folder / "tokenmart.duckdb"

    def environment(self) -> dict[str, str]:
        """Variables that point our commands here."""
        return {
            **os.environ,
            "TOKENMART_HOME": str(ROOT),
            "TOKENMART_DATA": str(self.data),
            "TOKENMART_DATABASE": str(self.database),
            "TOKENIZERS_PARALLELISM": "false",
        }


class Stages:
    """Stages in their order; what each took is kept beside its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.took: dict[str, dict[str, Any]] = {}

    def run(self, name: str, side: Side, *words: str) -> None:
        """One `tokenmart` command, unless an earlier run finished it."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / "took.json"
        before = json.loads(record.read_text()) if record.is_file() else {"seconds": 0.0, "runs": 0}
        if not before.get("done"):
            print(f"{datetime.now():%H:%M:%S} {name}", flush=True)
            entry: dict[str, Any] = {
                "command": "tokenmart " + " ".join(words).replace(f"{self.folder.parent}/", ""),
                "runs": before["runs"] + 1,
                "load": [round(os.getloadavg()[0], 2)],
            }
            last = 0.0

            def keep(seconds: float) -> None:
                nonlocal last
                if seconds - last > HEARTBEAT_SECONDS:
                    last = seconds
                    so_far = {**entry, "seconds": before["seconds"] + seconds}
                    record.write_text(json.dumps(so_far))

            command = [sys.executable, "-m", "tokenmart", *words]
            cost = run_within(command, folder, Limits(), name, side.environment(), keep)
            entry["load"].append(round(os.getloadavg()[0], 2))
            entry |= {
                "seconds": round(before["seconds"] + cost.seconds, 1),
                "peak_bytes": cost.peak_bytes,
                "done": True,
            }
            record.write_text(json.dumps(entry))
            print(f"{datetime.now():%H:%M:%S} {name}: {entry['seconds']:.0f} s", flush=True)
        self.took[name] = json.loads(record.read_text())


def main() -> None:
    """Run what is missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="Where everything is kept.")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "minimerge.json")
    parser.add_argument("--items", type=int, default=200, help="Open items of a skill.")
    parser.add_argument("--hidden-items", type=int, default=100, help="Items of a hidden set.")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    stages = Stages(folder / "stages")
    participant, organiser = Side(folder / "participant"), Side(folder / "organiser")
    problem = prepare(participant)
    open_tasks, hidden = folder / "participant" / "tasks", folder / "organiser" / "hidden"
    for skill in SKILLS:
        stages.run(f"train {skill}", participant, "merge", "train", skill, "--problem", problem)
    stages.run("check", participant, "merge", "check", problem)
    stages.run("merge", participant, "merge", "run", "--problem", problem)
    count = str(arguments.items)
    stages.run("tasks", participant, "merge", "tasks", "--out", str(open_tasks), "--count", count)
    evaluate(stages, participant, problem, "open", "mini", open_tasks)
    stages.run("rank open", participant, "dbt", "--quiet", "run", *MARTS)

    take_over(participant, organiser)
    secret = organiser.folder / "secret.txt"
    if not secret.is_file():
        secret.write_text(secrets.token_hex(16) + "\n")
    words = ["--secret", str(secret), "--count", str(arguments.hidden_items)]
    words += ["--overlap", str(OVERLAP), "--participant", str(participant.folder)]
    stages.run("hidden tasks", organiser, "merge", "tasks", "--out", str(hidden), *words)
    for name in HIDDEN:
        evaluate(stages, organiser, problem, name, f"mini_{name}", hidden / name)
    stages.run("rank all", organiser, "dbt", "--quiet", "run", *MARTS)
    standings = folder / "participant" / "standings.json"
    words = ["--problem", "minimerge", "--out", str(standings), "--force"]
    stages.run("show", organiser, "rank", "show", *words)
    found = json.loads(standings.read_text())
    winner = next(row["entry"] for row in found["rankings"] if row["round"] == "overall")

    bundle = folder / "participant" / "winner"
    words = ["--problem", problem, "--merge", winner, "--out", str(bundle)]
    stages.run("bundle", participant, "merge", "bundle", *words)
    words = [str(bundle), "--include-path", str(open_tasks), "--device", "cpu"]
    stages.run("reproduce", organiser, "merge", "reproduce", *words)
    figures = {
        "command": "python benchmarks/minimerge.py --folder FOLDER",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cores": os.cpu_count(),
        "minutes": round(sum(each["seconds"] for each in stages.took.values()) / 60, 1),
        "stages": stages.took,
        "items": {"open": arguments.items, **dict.fromkeys(HIDDEN, arguments.hidden_items)},
        "overlap": OVERLAP,
        "training": training(folder / "participant" / "experts"),
        "accuracy": accuracy(organiser.database),
        **found,
        "cannot_be_told_apart": alike(found),
        "winner": winner,
        "reproduction": (folder / "stages" / "reproduce" / "log.txt").read_text().splitlines(),
    }
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"written {arguments.out}: {figures['minutes']} minutes")


def prepare(participant: Side) -> str:
    """Lay out the participant's folder; return the path of the problem file in it."""
    cache = participant.data / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    ours = find_workspace(ROOT).cache
    for name in SHARED_CACHE:
        if (ours / name).is_dir() and not (cache / name).exists():
            (cache / name).symlink_to(ours / name)
    if (ours / "hashes.json").is_file() and not (cache / "hashes.json").exists():
        shutil.copy(ours / "hashes.json", cache)
    text = (ROOT / "data" / "problems" / "minimerge.yml").read_text("utf-8")
    problem = participant.folder / "minimerge.yml"
    problem.write_text(text.replace("data/minimerge/", "experts/"), encoding="utf-8")
    return str(problem)


def evaluate(
    stages: Stages, side: Side, problem: str, round_name: str, prefix: str, folder: Path
) -> None:
    """All entries on the tasks of a round."""
    tasks = ",".join(f"{prefix}_{skill}" for skill in SKILLS)
    words = ["--problem", problem, "--round", round_name, "--tasks", tasks]
    words += ["--include-path", str(folder), "--device", "cpu"]
    stages.run(f"evaluate {round_name}", side, "merge", "eval", *words)


def take_over(participant: Side, organiser: Side) -> None:
    """Give the organiser the participants' merges and open results, once."""
    if organiser.data.exists():
        return
    draft = organiser.folder / "draft"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(participant.data, draft, ignore=shutil.ignore_patterns("cache"))
    (draft / "cache").symlink_to(participant.data / "cache")
    draft.rename(organiser.data)


def training(folder: Path) -> dict[str, Any]:
    """Settings, seconds and losses of each expert."""
    found = {}
    for skill in SKILLS:
        record = json.loads((folder / skill / "training.json").read_text())
        losses = record["losses"]
        found[skill] = {
            **record["training"],
            "seconds": record["seconds"],
            "first_loss": losses[0],
            "last_ten_losses": sum(losses[-10:]) / len(losses[-10:]),
        }
    return found


def accuracy(database: Path) -> list[dict[str, Any]]:
    """Accuracy of each entry on each task of each round, and its standard error."""
    query = """
        select c.round, c.task, m.model_id as entry, m.value as accuracy, m.stderr, m.items
        from eval_metrics as m
        inner join (select distinct round, task, problem from int_ranking_columns) as c
            using (task, problem)
        where m.metric = 'acc' and m.part = 'all' and m.problem = 'minimerge'
        order by all
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.sql(query).to_arrow_table().to_pylist()


def alike(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Round → its pairs, and those whose order isn't the same in 97.5% of the draws."""
    pairs: dict[str, list[Any]] = {}
    for row in found["ranking_pairs"]:
        pairs.setdefault(row["round"], []).append(row)
    return {
        name: {
            "pairs": len(rows),
            "alike": [[r["entry"], r["other_entry"]] for r in rows if not r["told_apart"]],
        }
        for name, rows in pairs.items()
    }


if __name__ == "__main__":
    main()
