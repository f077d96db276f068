"""Do documents of twice the length predict recall better? The models of minilong read some again.

Documents of minilong that are long enough are read at 8,064 tokens, which leaves room for the
questions of retrieval within the 8,192 that SmolLM2 was trained for. Their metrics are compared
with those of the very same documents at minilong's own length, as results/minilong holds them: how
well does each reading rank the models by recall, over all and at each length asked?

    python benchmarks/longer_documents.py --folder /tmp/longer

Whatever is there already isn't computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import told
import yaml

from analysis.statistics import spearman
from warehouse.files import write_whole
from warehouse.metrics.dbt_process import values_from_documents
from warehouse.paths import Workspace, find_workspace
from warehouse.store.provenance import code_revision

OUT = told.ROOT / "benchmarks" / "longer_documents.json"
RESULTS = told.ROOT / "results" / "minilong"
NAME = "minilong_longer"
TOKENS = 8064
FEWEST = 5
"""Metrics that fewer models have in both readings are named and not correlated."""
MIN_BYTES = 45_001
"""Of a document: 8,064 tokens are at most about 5.5 characters each in these texts."""


def main() -> None:
    """Read what is missing, compare, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="Where everything is kept.")
    parser.add_argument("--documents", type=int, default=2, help="How many to read.")
    parser.add_argument("--model", action="append", default=[], help="Only these; repeatable.")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    workspace = prepare(arguments.folder.resolve())
    problem = str(arguments.folder.resolve() / f"{NAME}.yml")
    chosen = [word for model in arguments.model for word in ("--model", model)]
    words = ["--problem", problem, "--only", "documents", "--document-step", "1", *chosen]
    run(workspace, "campaign", *words, "--documents", str(arguments.documents))
    run(workspace, "dbt", "--quiet", "run")
    asked = " ".join(["--documents", str(arguments.documents), *chosen])
    found = {"command": f"python benchmarks/longer_documents.py --folder FOLDER {asked}"}
    found |= compare(workspace)
    write_whole(arguments.out, json.dumps(found, indent=1) + "\n")
    print(f"written {arguments.out}; `tokenmart results tell` puts it into docs/findings.md")


def prepare(folder: Path) -> Workspace:
    """A data folder of its own, with the checkout's downloads, and a problem file."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    if not (data / "cache").exists():
        (data / "cache").symlink_to(find_workspace(told.ROOT).cache)
    raw = yaml.safe_load((told.ROOT / "data" / "problems" / "minilong.yml").read_text("utf-8"))
    raw |= {"name": NAME, "title": f"minilong's models on documents of {TOKENS} tokens"}
    sizes = pq.read_table(RESULTS / "documents.parquet", partitioning=None)["bytes"].to_pylist()
    count = sum(size >= MIN_BYTES for size in sizes)
    raw["documents"] |= {"max_tokens": TOKENS, "min_bytes": MIN_BYTES, "count": count}
    # the target is minilong's own, measured once
    del raw["target"], raw["demo"]
    write_whole(folder / f"{NAME}.yml", yaml.safe_dump(raw, sort_keys=False))
    return Workspace(told.ROOT, data, folder / "tokenmart.duckdb")


def run(workspace: Workspace, *words: str) -> None:
    """One `tokenmart` command on that folder; ends the program where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tokenmart", *words],
        env={**os.environ, **workspace.environment()},
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)


def compare(workspace: Workspace) -> dict[str, Any]:
    """Each reading's rank correlation with recall over all, and at each length."""
    figures = json.loads((RESULTS / "figures.json").read_text("utf-8"))
    names = [*figures["told"], *(f"{row['metric']}/{row['variant']}" for row in figures["rows"])]
    with duckdb.connect(str(workspace.database), read_only=True) as connection:
        read = rows(
            connection,
            "select d.name, d.sha256, any_value(d.doc_id) as doc_id,"
            " count(distinct m.model_id) as models from documents as d"
            " inner join metric_documents as m using (problem, doc_id)"
            " where d.problem = $1 group by all order by doc_id",
            NAME,
        )
        longer = values(connection.sql("from metric_values").to_arrow_table())
        direction = dict(
            connection.sql(
                "select metric || '/' || variant, direction from metric_catalog"
            ).fetchall()
        )
        cost = rows(
            connection,
            "select sum(seconds) as seconds, sum(tokens_processed)::bigint as tokens_processed"
            " from units where problem = $1 and status = 'done'",
            NAME,
        )
    models = sorted({model for row in longer.values() for model in row})
    own = at_own_length(read, models)
    shorter = values(values_from_documents(own, NAME, workspace))
    recall = target()
    compared, left_out = {}, []
    for name in dict.fromkeys(names):
        sign = 1 if direction[name] == "higher" else -1
        both = sorted(longer.get(name, {}).keys() & shorter.get(name, {}).keys())
        if len(both) < FEWEST:
            left_out.append(name)
            continue
        short, long = (np.array([r[name][m] for m in both]) for r in (shorter, longer))
        compared[name] = {
            "models": len(both),
            "alike": spearman(short, long),
            "spearman": {
                length: {
                    "shorter": sign * spearman(short, np.array([scores[m] for m in both])),
                    "longer": sign * spearman(long, np.array([scores[m] for m in both])),
                }
                for length, scores in recall.items()
            },
        }
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        **code_revision(),
        "machine": told.machine("torch", "transformers", "tokenmart"),
        "tokens": {"shorter": 4096, "longer": TOKENS},
        "documents": [{key: row[key] for key in ("name", "sha256", "models")} for row in read],
        "models": models,
        "luck_reaches": luck(len(models)),
        "cost": cost[0],
        "metrics": compared,
        "too_few_models": left_out,
    }


def luck(models: int, draws: int = 20_000) -> float:
    """What |rho| of so many models in random order exceeds one time in twenty."""
    generator = np.random.default_rng(0)
    order = np.arange(float(models))
    found = [abs(spearman(order, generator.permutation(order))) for _ in range(draws)]
    return float(np.quantile(found, 0.95))


def rows(connection: duckdb.DuckDBPyConnection, query: str, problem: str) -> list[dict[str, Any]]:
    """A query's rows."""
    found: list[dict[str, Any]] = (
        connection.sql(query, params=[problem]).to_arrow_table().to_pylist()
    )
    return found


def values(table: pa.Table) -> dict[str, dict[str, float]]:
    """Metric and variant → model → value, where there is one."""
    found: dict[str, dict[str, float]] = {}
    for row in table.to_pylist():
        if row["value"] is not None:
            found.setdefault(f"{row['metric']}/{row['variant']}", {})[row["model_id"]] = row[
                "value"
            ]
    return found


def at_own_length(read: list[dict[str, Any]], models: list[str]) -> pa.Table:
    """Frozen values of the same documents, under the names that they have in the longer reading."""
    known = pa.Table.from_pylist([{"sha256": row["sha256"], "here": row["doc_id"]} for row in read])
    with duckdb.connect() as connection:
        connection.register("known", known)
        return connection.sql(
            "select values.* replace ($1 as problem, known.here::int as doc_id)"
            " from read_parquet($2, hive_partitioning = false) as values"
            " inner join read_parquet($3, hive_partitioning = false) as documents"
            " using (problem, doc_id) inner join known using (sha256)"
            " where list_contains($4, model_id)",
            params=[
                NAME,
                *(str(RESULTS / f"{t}.parquet") for t in ("metric_documents", "documents")),
                models,
            ],
        ).to_arrow_table()


def target() -> dict[str, dict[str, float]]:
    """Length asked, or `overall` → model → recall, tasks weighing the same."""
    found: dict[str, dict[str, float]] = {}
    with duckdb.connect() as connection:
        asked = connection.sql(
            "with asked as (select model_id, score,"
            " coalesce(nullif(regexp_extract(task, '_(\\d+)$', 1), ''), task) as length"
            " from read_parquet($1, hive_partitioning = false)),"
            " means as (select length, model_id, avg(score) as score from asked group by all)"
            " select * from means where length = 'overall' or try_cast(length as int) is not null"
            " order by try_cast(length as int) nulls first, model_id",
            params=[str(RESULTS / "downstream_scores.parquet")],
        ).fetchall()
    for length, model, score in asked:
        found.setdefault(length, {})[model] = score
    return found


if __name__ == "__main__":
    main()
