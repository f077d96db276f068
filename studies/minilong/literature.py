"""Compute metrics that the literature proposes on the study's models, with the probes they need.

    python studies/minilong/literature.py --folder literature_run

The problem is minilong with other probes, on the first documents only. Scored units are kept in
the folder: the same command resumes. Writes tables/literature.parquet and literature_costs.parquet,
from which `recompute.py` computes the figures of the page. Bits per byte of each document must
equal those of the study.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import yaml

ROOT = Path(__file__).parents[2]
TABLES = Path(__file__).parent / "tables"
PROBES: list[dict[str, Any]] = [
    {"kind": "full"},
    {"kind": "ladder", "contexts": [128, 256, 512, 1024], "targets": 256},
    {"kind": "copy", "lengths": [256, 1024]},
    {"kind": "copy", "name": "copy_random", "lengths": [256, 1024], "order": "random"},
    {"kind": "halves", "lengths": [512, 2048]},
    {"kind": "far", "near": 1024, "targets": 1024},
]
COMPARE = [["full", "ladder_128"], ["full", "far_shuffled"], ["full", "far_foreign"]]
TOLERANCE = 1e-4
"""Relative: float32 sums of other machines differ by less than a tenth of it."""

FAMILIES = (
    "forgetting_curve",
    "min_context",
    "ladder_gain",
    "ladder_power",
    "ladder_reach",
    "mutual_information",
    "rare_recall",
    "entropy_resolved",
)
FAR = ("mean@far_shuffled", "mean@far_foreign")
"""Variants of `context_gain`: the gain from distant context in its order, and from it at all."""

QUERIES = {
    "literature": f"""
        select metric, variant, model_id, value, tokens, documents, reason,
            is_core as core, direction
        from metric_values inner join metric_catalog using (metric, variant)
        where metric in {FAMILIES}
            or (metric = 'context_gain' and variant in {FAR})
        order by all
    """,
    "literature_costs": """
        select model_id, condition, count(*) as documents,
            sum(tokens_processed) as tokens_processed, sum(seconds) as seconds
        from units where status = 'done' group by all order by all
    """,
}
CONDITIONS = 17
"""The document, four prefixes, two copied passages in two orders and their controls, two halves,
two far."""

SCORED = """
    select count(distinct model_id), count(distinct condition), count(*), min(documents),
        max(documents)
    from (select model_id, condition, count(*) as documents from units
        where status = 'done' group by all)
"""
DIFFERENCE = """
    select max(abs(ours.numerator / theirs.numerator - 1)), count(*)
    from metric_documents as ours
    inner join read_parquet($1) as theirs using (metric, variant, model_id, doc_id)
    where metric = 'perplexity' and variant = 'bits_per_byte'
"""


def main() -> None:
    """Score what is missing, build the metrics, write the tables."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--documents", type=int, default=12)
    chosen = options.parse_args()
    folder = chosen.folder.resolve()
    data, database = folder / "data", folder / "tokenmart.duckdb"
    data.mkdir(parents=True, exist_ok=True)
    if not (data / "cache").exists():
        (data / "cache").symlink_to(ROOT / "data" / "cache")
    problem = yaml.safe_load((ROOT / "data" / "problems" / "minilong.yml").read_text("utf-8"))
    file = folder / "minilong.yml"
    file.write_text(yaml.safe_dump(problem | {"probes": PROBES, "compare": COMPARE}), "utf-8")
    places = {"TOKENMART_DATA": str(data), "TOKENMART_DATABASE": str(database)}

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "tokenmart", *words]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **places})

    run("data", "fetch", "--problem", str(file))
    documents = ["--documents", str(chosen.documents)]
    run("extract", "--problem", str(file), *documents)
    run("dbt", "run", "--quiet")
    with duckdb.connect(str(database), read_only=True) as connection:
        [(models, conditions, pairs, fewest, most)] = connection.execute(SCORED).fetchall()
        whole = (len(problem["models"]), CONDITIONS) == (models, conditions)
        if not whole or pairs != models * conditions or fewest != most:
            sys.exit("error: not every model has every condition of the same documents; run again")
        study = str(TABLES / "metric_documents.parquet")
        [(difference, rows)] = connection.execute(DIFFERENCE, [study]).fetchall()
        if rows != models * most or difference > TOLERANCE:
            sys.exit(
                f"error: {rows} of {models * most} values of bits per byte are in the study, and "
                f"differ by {difference} (relative); compare the documents and the checkpoints"
            )
        print(f"bits per byte: {rows} values, largest relative difference {difference:.1e}")
        for name, query in QUERIES.items():
            connection.sql(query).write_parquet(str(TABLES / f"{name}.parquet"))
            print(f"written {name}.parquet")


if __name__ == "__main__":
    main()
