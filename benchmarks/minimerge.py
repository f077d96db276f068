"""The problem minimerge from training to the reproduced winner, by the documented commands, timed.

Two sides with a data folder each: participants train, merge and score the open round; the organiser
takes over their merges and open results, and alone holds the items of leaderboard and final.
A stage that is done isn't run again, so that the same command resumes after a crash. With --real
the open round is BoolQ and MAWPS, downloaded; the hidden rounds stay generated.

    python benchmarks/minimerge.py --folder /tmp/real --real --items 300  # the committed figures
    python benchmarks/minimerge.py --folder /tmp/minimerge --out minimerge.json
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import yaml
from marked_tables import ROOT, marked, replace_marked, table

from plugins.merging.problem import Limits
from plugins.merging.watchdog import folder_bytes, run_within
from warehouse.errors import TokenmartError
from warehouse.files import write_whole
from warehouse.paths import find_workspace
from warehouse.store.provenance import code_revision

OUT = ROOT / "benchmarks" / "minimerge.json"
BLOCK = "benchmarks/minimerge.json"
SKILLS = ("reading", "maths", "code")
HIDDEN = ("leaderboard", "final")
OVERLAP = 0.25
MARTS = ["dbt", "run", "--quiet", "--select", "+tag:rankings", "+eval_metrics"]
REAL = ("boolq", "mawps")
SHARED_CACHE = ("archives", "checkpoints", "weights", "real_sets")
HEARTBEAT_SECONDS = 30.0


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
    """Stages in their order; the cost of each is stored next to its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.took: dict[str, dict[str, Any]] = {}

    def run(self, name: str, side: Side, *words: str) -> None:
        """One `tokenmart` command, unless an earlier run finished it.

        Raises:
            TokenmartError: it failed, or was finished with other words.
        """
        whole = self.folder.parent
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / "took.json"
        command = "tokenmart " + " ".join(words).replace(f"{whole}/", "")
        before: dict[str, Any] = {"command": command, "seconds": 0.0, "runs": 0}
        before["held_bytes"] = folder_bytes(whole)
        if record.is_file():
            before = json.loads(record.read_text())
        if before["command"] != command:
            raise TokenmartError(
                f"{folder}: was run as `{before['command']}`; choose another --folder"
            )
        if "peak_bytes" not in before:  # not finished
            say(f"{name}: {command}")
            entry = {**before, "runs": before["runs"] + 1, "load": [load()]}
            write_whole(record, json.dumps(entry))
            shown = 0.0

            def keep(seconds: float) -> None:
                nonlocal shown
                if seconds - shown > HEARTBEAT_SECONDS:
                    shown = seconds
                    write_whole(
                        record, json.dumps({**entry, "seconds": before["seconds"] + seconds})
                    )
                    say(f"  {seconds:.0f} s: {last_line(folder / 'log.txt')}")

            run = [sys.executable, "-m", "tokenmart", *words]
            kept = f"its log is {folder / 'log.txt'}"
            cost = run_within(run, folder, Limits(), name, side.environment(), keep, kept)
            entry |= {
                "load": [*entry["load"], load()],
                "seconds": round(before["seconds"] + cost.seconds, 1),
                "disk_bytes": folder_bytes(whole) - entry.pop("held_bytes"),
                "peak_bytes": cost.peak_bytes,
            }
            write_whole(record, json.dumps(entry))
            say(f"{name}: {entry['seconds']:.0f} s, {cost.peak_bytes / 1e9:.1f} GB of memory")
        self.took[name] = json.loads(record.read_text())


def say(text: str) -> None:
    """A line with the time of day."""
    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)


def load() -> float:
    """Processes that wanted a processor during the last minute."""
    return round(os.getloadavg()[0], 2)


def last_line(log: Path) -> str:
    """What a stage said last."""
    lines = log.read_text("utf-8", "replace").split("\n")
    return next((line[:150] for line in reversed(lines) if line.strip()), "")


def main() -> None:
    """Run what is missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="Where everything is kept.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--problem", type=Path, default=ROOT / "data/problems/minimerge.yml")
    parser.add_argument("--steps", type=int, default=200, help="Training steps of an expert.")
    parser.add_argument("--items", type=int, default=200, help="Open items of a skill.")
    parser.add_argument("--real", action="store_true", help="Open round on BoolQ and MAWPS.")
    parser.add_argument("--hidden-items", type=int, default=100, help="Items of a hidden set.")
    arguments = parser.parse_args()
    if arguments.out == OUT and not arguments.real:
        parser.error("the committed figures are of --real; give --real, or --out another file")
    try:
        figures = run_all(arguments)
    except TokenmartError as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("stopped; the same command goes on from here")
        sys.exit(130)
    write_whole(arguments.out, json.dumps(figures, indent=1) + "\n")
    if arguments.out.resolve() == OUT:
        page = ROOT / "docs" / "tutorials" / "ranking_merged_models.md"
        replace_marked(page, BLOCK, docs_block(figures))
    say(f"written {arguments.out}: {figures['minutes']} minutes")


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
    tasks |= {f"mini_final_{skill}": f"{skill}, final" for skill in SKILLS}
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


def run_all(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every stage in its order; what was found and what it took."""
    folder = arguments.folder.resolve()
    stages = Stages(folder / "stages")
    participant, organiser = Side(folder / "participant"), Side(folder / "organiser")
    problem, name = prepare(participant, arguments.problem)
    open_tasks, hidden = participant.folder / "tasks", organiser.folder / "hidden"
    for skill in SKILLS:
        words = ["--problem", problem, "--steps", str(arguments.steps)]
        stages.run(f"train {skill}", participant, "merge", "train", skill, *words)
    stages.run("check", participant, "merge", "check", "--problem", problem)
    stages.run("merge", participant, "merge", "run", "--problem", problem)
    words = ["--out", str(open_tasks), "--count", str(arguments.items)]
    open_names = [f"mini_{skill}" for skill in SKILLS]
    if arguments.real:
        words += [word for name in REAL for word in ("--real", name)]
        open_names = [f"real_{name}" for name in REAL]
    stages.run("tasks", participant, "merge", "tasks", *words)
    evaluate = ["merge", "eval", "--problem", problem, "--device", "cpu"]
    words = ["--round", "open", "--tasks", ",".join(open_names)]
    words += ["--include-path", str(open_tasks)]
    stages.run("evaluate open", participant, *evaluate, *words)
    stages.run("rank open", participant, *MARTS)

    take_over(participant, organiser)
    secret = organiser.folder / "secret.txt"
    if not secret.is_file():
        write_whole(secret, secrets.token_hex(16) + "\n")
    words = ["--secret", str(secret), "--count", str(arguments.hidden_items)]
    words += ["--overlap", str(OVERLAP), "--participant", str(participant.folder)]
    stages.run("hidden tasks", organiser, "merge", "tasks", "--out", str(hidden), *words)
    for each in HIDDEN:
        words = ["--hidden-round", str(hidden / each / f"{each}.yml")]
        stages.run(f"evaluate {each}", organiser, *evaluate, *words)
    stages.run("rank all", organiser, *MARTS)
    standings = participant.folder / "standings.json"
    words = ["--problem", name, "--force", "--out"]
    stages.run("show", organiser, "rank", "show", *words, str(standings))
    page = standings.with_suffix(".html")
    stages.run("page", organiser, "rank", "report", *words, str(page))
    found = json.loads(standings.read_text())
    winner = next(row["entry"] for row in found["rankings"] if row["round"] == "overall")

    bundle = participant.folder / "winner"
    words = ["--problem", problem, "--merge", winner, "--out", str(bundle)]
    stages.run("bundle", participant, "merge", "bundle", *words)
    words = [str(bundle), "--include-path", str(open_tasks), "--device", "cpu"]
    stages.run("reproduce", organiser, "merge", "reproduce", *words)
    return {
        "command": "python benchmarks/minimerge.py --folder FOLDER"
        + (f" --real --items {arguments.items}" if arguments.real else ""),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cores": os.cpu_count(),
        "minutes": round(sum(each["seconds"] for each in stages.took.values()) / 60, 1),
        "stages": stages.took,
        "open_tasks": open_names,
        "open_answers": answers(open_tasks),
        "items": {"open": arguments.items, **dict.fromkeys(HIDDEN, arguments.hidden_items)},
        "overlap": OVERLAP,
        "training": training(participant.folder / "experts"),
        "accuracy": accuracy(organiser.database, name),
        **found,
        "cannot_be_told_apart": alike(found),
        "winner": winner,
        "reproduction": (stages.folder / "reproduce" / "log.txt").read_text().splitlines(),
    }


def prepare(participant: Side, shipped: Path) -> tuple[str, str]:
    """Create the participant's folder; return the path of the problem file in it, and its name."""
    cache = participant.data / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    ours = find_workspace(ROOT).cache
    for name in SHARED_CACHE:
        if (ours / name).is_dir() and not (cache / name).exists():
            (cache / name).symlink_to(ours / name)
    if (ours / "hashes.json").is_file() and not (cache / "hashes.json").exists():
        shutil.copy(ours / "hashes.json", cache)
    text = shipped.read_text("utf-8").replace("data/minimerge/", "experts/")
    problem = participant.folder / "minimerge.yml"
    write_whole(problem, text)
    return str(problem), str(yaml.safe_load(text)["name"])


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
                [r["entry"], r["other_entry"]] for r in rows if r["distinguishable"] is False
            ],
        }
        for name, rows in pairs.items()
    }


if __name__ == "__main__":
    main()
