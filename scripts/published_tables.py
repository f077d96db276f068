"""Write data/published/ from clones of the repositories that published the scores.

    python scripts/published_tables.py FOLDER

FOLDER has clones of the repositories of `TABLES` (bare or not), each in a folder of the
repository's name and with its commit; tables of other repositories are kept. Each table is one
Parquet file with the columns of a plain table of scores; `sources.json` in the same folder has
repository, commit, licence, rows, bytes and sha256.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from published_models import (
    BITS_PER_BYTE,
    ERRORS,
    SCALING,
    compression_rows,
    perplexity_rows,
    scaling_rows,
)

from warehouse.files import replacing, sha256_file, write_whole

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
COMPRESSION_LEVEL = 19

Row = dict[str, Any]
Files = Iterator[tuple[str, bytes]]

# src/ladder/ladder.py of the ladder's repository
LADDER_PARAMETERS = {
    "190M": 190_354_176,
    "370M": 371_262_464,
    "760M": 758_220_288,
    "1B": 1_279_395_840,
    "3B": 3_169_537_280,
    "7B": 6_887_575_552,
    "13B": 13_202_396_160,
}
# OLMo 2 as it was evaluated during its main training run; the other files repeat parts of it
LADDER_TARGETS = {"peteish7_eval_full": "7B", "peteish13_eval_full": "13B"}
LADDER_READINGS = {
    "downstream": "accuracy",
    "downstream_bpb": "bpb",
    "downstream_soft": "soft",
    "downstream_soft_log": "soft_log",
}
LADDER_TASK = re.compile(r"eval/(?P<kind>downstream\w*)/(?P<task>\w+)_rc_5shot_\w+?")
LADDER_LOSS = re.compile(r"eval/(?P<text>[\w-]+)-validation/CrossEntropyLoss")

# "The Pythia suite", table of the models' sizes (with embeddings)
PYTHIA_PARAMETERS = {
    "70m": 70_426_624,
    "160m": 162_322_944,
    "410m": 405_334_016,
    "1b": 1_011_781_632,
    "1.4b": 1_414_647_808,
    "2.8b": 2_775_208_960,
    "6.9b": 6_857_302_016,
    "12b": 11_846_072_320,
}
PYTHIA_TOKENS_PER_STEP = 2_097_152
PYTHIA_FILE = re.compile(
    r".*/pythia-(?P<name>[\d.]+[mb](-bf16)?(-deduped)?)/(zero|five)-shot/.*_step(?P<step>\d+)\.json"
)
PYTHIA_METRICS = {"acc": "higher", "acc_norm": "higher", "ppl": "lower"}

DCLM_SIZES = {411_616_256: "400M", 1_439_795_200: "1B", 6_889_410_560: "7B"}


@dataclass(frozen=True)
class Source:
    """A repository, its commit, and the files that are read."""

    repository: str
    commit: str
    folders: tuple[str, ...]
    licence: str


def archive(clone: Path, source: Source) -> Files:
    """The files of a source at its commit: path and bytes.

    Raises:
        ClickException: the clone lacks the commit.
    """
    command = ["git", "-C", str(clone), "archive", source.commit, *source.folders]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise click.ClickException(
            f"{clone}: can't read commit {source.commit} ({' '.join(reason)}); clone "
            f"{source.repository} there"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            content = tar.extractfile(member)
            if content is not None:
                yield member.name, content.read()


def ladder_rows(files: Files) -> Iterator[Row]:
    """OLMo ladder: runs named SIZE-MULTIPLE, losses, and 20 tasks by four scoring methods."""
    for path, content in files:
        name = Path(path).stem
        size = LADDER_TARGETS.get(name) or name.split("-")[0]
        if size not in LADDER_PARAMETERS:
            continue
        run = {
            "model": f"{size}-final" if name in LADDER_TARGETS else name,
            "size": size,
            "family": size,
            "parameters": LADDER_PARAMETERS[size],
        }
        for line in csv.DictReader(io.StringIO(content.decode())):
            step = int(line["_step"])
            tokens = line.get("throughput/total_tokens")
            seen = float(tokens) if tokens else step * float(line["batch_size_in_tokens"])
            for column, value in line.items():
                measure = _ladder_measure(column)
                if measure and value:
                    yield {**run, "step": step, "tokens": seen, **measure, "score": float(value)}


def _ladder_measure(column: str) -> Row | None:
    """Scoring method of a column of the ladder's files; None for throughput and multiple choice."""
    if loss := LADDER_LOSS.fullmatch(column):
        return {"benchmark": loss["text"], "metric": "cross_entropy", "direction": "lower"}
    if task := LADDER_TASK.fullmatch(column):
        metric = LADDER_READINGS[task["kind"]]
        direction = "lower" if metric == "bpb" else "higher"
        return {"benchmark": task["task"], "metric": metric, "direction": direction}
    return None


def pythia_rows(files: Files) -> Iterator[Row]:
    """Pythia: 16 models, zero- and five-shot tasks over training, with standard errors.

    Left out: runs with another batch size, interventions, and CrowS-Pairs, whose scores have no
    better direction.
    """
    for path, content in files:
        found = PYTHIA_FILE.fullmatch(path)
        if found is None:
            continue
        size = found["name"].removesuffix("-deduped").removesuffix("-bf16")
        step = int(found["step"])
        run = {
            "model": f"pythia-{found['name']}",
            "size": size,
            "family": size,
            "parameters": PYTHIA_PARAMETERS[size],
            "step": step,
            "tokens": float(step * PYTHIA_TOKENS_PER_STEP),
        }
        file = json.loads(content)
        shots = int(file["config"]["num_fewshot"])
        for task, scores in file["results"].items():
            if task.startswith("crows_pairs"):
                continue
            benchmark = f"{task}_{shots}shot" if shots else task
            for metric, direction in PYTHIA_METRICS.items():
                if metric in scores:
                    measure = {"benchmark": benchmark, "metric": metric, "direction": direction}
                    error = scores.get(f"{metric}_stderr")
                    yield {**run, **measure, "score": float(scores[metric]), "stderr": error}


def dclm_rows(files: Files) -> Iterator[Row]:
    """DCLM: models trained on many data recipes at three sizes, evaluated once each.

    Left out: evaluations of other people's models, which have no record of their training.
    """
    contents = {path: json.loads(content) for path, content in files if path.endswith(".json")}
    models = {c["uuid"]: c for path, c in contents.items() if "/models/" in path}
    for path, file in contents.items():
        model = models.get(file.get("model_uuid")) if "/evals/" in path else None
        if model is None:
            continue
        setting = model["hyperparameters"]
        size = DCLM_SIZES.get(setting["params"])
        if size is None:
            continue
        run = {
            "model": Path(path).stem,
            "size": f"{size}-{float(setting['chinchilla_multiplier']):g}x",
            "family": model["dataset_name"],
            "recipe": model["dataset_name"],
            "architecture": str(setting["model"]),
            "parameters": int(setting["params"]),
            "tokens": float(setting["tokens"]),
        }
        scores_by_metric = {
            "accuracy": (file["eval_metrics"]["icl"], "higher"),
            "task_loss": (file["eval_metrics"].get("downstream_perpexity") or {}, "lower"),
        }
        for metric, (scores, direction) in scores_by_metric.items():
            for task, score in scores.items():
                if isinstance(score, int | float) and np.isfinite(score):
                    measure = {"benchmark": task, "metric": metric, "direction": direction}
                    yield {**run, **measure, "score": float(score)}


TABLES: dict[str, tuple[Source, Callable[[Files], Iterator[Row]]]] = {
    "olmo_ladder": (
        Source(
            "https://github.com/allenai/OLMo-ladder",
            "67a3f440f787d020da35e3ca8eeae475fae754f5",
            ("src/scripts/paper/data/ladder-runs",),
            "Apache-2.0",
        ),
        ladder_rows,
    ),
    "pythia": (
        Source(
            "https://github.com/EleutherAI/pythia",
            "a19eecb807ec2c79a39ebf18108816e6ffffc1d5",
            ("evals/pythia-v1",),
            "Apache-2.0",
        ),
        pythia_rows,
    ),
    "dclm": (
        Source(
            "https://github.com/mlfoundations/dclm",
            "361714bdd60bb9b7f4b2d8354cebbf0dec0c329e",
            ("exp_data/evals", "exp_data/models"),
            "MIT",
        ),
        dclm_rows,
    ),
    "perplexity_correlations": (
        Source(
            "https://github.com/TristanThrush/perplexity-correlations",
            "165d8c6254d3aee3250139494071d9a8080a5dd9",
            (BITS_PER_BYTE, ERRORS),
            "MIT",
        ),
        perplexity_rows,
    ),
    "observational_scaling": (
        Source(
            "https://github.com/ryoungj/ObsScaling",
            "4d6e1e43fd2635d04654aa77d1df9d5266ea0382",
            (SCALING,),
            "Apache-2.0",
        ),
        scaling_rows,
    ),
    "compression_intelligence": (
        Source(
            "https://github.com/hkust-nlp/llm-compression-intelligence",
            "ff39c4161d4cd16c7603d85f436da123773448bb",
            ("README.md",),
            "MIT",
        ),
        compression_rows,
    ),
}

SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("size", pa.string()),
        ("family", pa.string()),
        ("recipe", pa.string()),
        ("architecture", pa.string()),
        ("parameters", pa.int64()),
        ("step", pa.int64()),
        ("tokens", pa.float64()),
        ("benchmark", pa.string()),
        ("metric", pa.string()),
        ("document", pa.string()),
        ("direction", pa.string()),
        ("score", pa.float64()),
        ("stderr", pa.float64()),
    ]
)


def compact(rows: Iterator[Row]) -> pa.Table:
    """The rows as a sorted table without empty columns; floats are float32 if this is exact."""
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    order = ("benchmark", "metric", "model", "document", "tokens", "step")
    table = table.sort_by([(name, "ascending") for name in order])
    for index, field in reversed(list(enumerate(table.schema))):
        column = table.column(index)
        if column.null_count == len(column):
            table = table.remove_column(index)
        elif field.name in ("score", "stderr"):
            narrow = pc.cast(column, pa.float32(), safe=False)
            if pc.all(pc.equal(pc.cast(narrow, pa.float64()), column)).as_py():
                table = table.set_column(index, pa.field(field.name, pa.float32()), narrow)
    return table


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path), default=PUBLISHED, help="Write here.")
def main(folder: Path, out: Path) -> None:
    """Write the tables whose clones are in the folder."""
    record_path = out / "sources.json"
    record = json.loads(record_path.read_text("utf-8")) if record_path.is_file() else {}
    for name, (source, rows_of) in TABLES.items():
        clone = folder / source.repository.rpartition("/")[2]
        if not clone.exists():
            continue
        table = compact(rows_of(archive(clone, source)))
        path = out / f"{name}.parquet"
        with replacing(path) as draft:
            pq.write_table(
                table, draft, compression="zstd", compression_level=COMPRESSION_LEVEL,
                row_group_size=len(table), store_schema=False,
            )  # fmt: skip
        measured = {"rows": len(table), "bytes": path.stat().st_size, "sha256": sha256_file(path)}
        record[name] = {**asdict(source), **measured}
        click.echo(f"{path}: {measured['rows']:,} rows, {measured['bytes']:,} bytes")
    write_whole(record_path, json.dumps(dict(sorted(record.items())), indent=2) + "\n")


if __name__ == "__main__":
    main()
