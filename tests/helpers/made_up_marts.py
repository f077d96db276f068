"""A DuckDB file with the tables dbt would have built, holding made-up numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warehouse.paths import Workspace
from warehouse.sql.problem_state import read_states
from warehouse.sql.views import connect_to_targets
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM, RECALL_ITEMS

PROBLEMS = Path(__file__).parents[2] / "data" / "problems"


class Marts:
    """Builds a DuckDB file with the tables that dbt would have built, holding made-up numbers."""

    def __init__(self, workspace: Workspace, empty: bool = True) -> None:
        self.workspace = workspace
        if not empty:  # its files are there
            return
        workspace.database.parent.mkdir(parents=True, exist_ok=True)
        workspace.problems.mkdir(parents=True, exist_ok=True)
        for path in PROBLEMS.glob("*.yml"):
            shutil.copy(path, workspace.problems)
        with self.write() as connection:
            connection.execute(
                """
                create table metric_values(problem varchar, metric varchar, variant varchar,
                    model_id varchar, value double, tokens bigint, documents bigint,
                    reason varchar);
                create table metric_catalog(metric varchar, variant varchar, family varchar,
                    parameters json, direction varchar, is_admissible boolean, formula varchar,
                    description varchar, code varchar);
                create table coverage(problem varchar, model_id varchar, condition varchar,
                    condition_kind varchar, documents bigint, documents_done bigint,
                    documents_failed bigint, documents_missing bigint, is_complete boolean,
                    tokens bigint, tokens_processed bigint, tokens_scored bigint, seconds double,
                    peak_bytes bigint, failure varchar);
                create table position_profile(problem varchar, model_id varchar, condition varchar,
                    position_from bigint, position_to bigint, tokens bigint, documents bigint,
                    nll double, short_nll double, gain double, entropy double, accuracy double);
                create table documents(problem varchar, doc_id int, name varchar, sha256 varchar,
                    characters bigint, bytes bigint, text varchar);
                create table models(problem varchar, model_id varchar, full_id varchar,
                    revision varchar, tokenizer_sha256 varchar, interventions varchar);
                create table units(problem varchar, model_id varchar, condition varchar,
                    probe_params varchar, doc_id int, status varchar, device varchar,
                    dtype varchar, torch_version varchar, transformers_version varchar,
                    tokenmart_version varchar, code_revision varchar, code_dirty boolean,
                    seed bigint, tokens_processed bigint, tokens_scored bigint, seconds double,
                    peak_bytes bigint, document_tokens int, document_tokens_total int,
                    attention varchar);
                """
            )

    def write(self) -> duckdb.DuckDBPyConnection:
        """A connection that may write."""
        return duckdb.connect(str(self.workspace.database))

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        marks = ",".join(f"({','.join('?' * len(row))})" for row in rows)
        with self.write() as connection:
            connection.execute(f"insert into {table} values {marks}", [*chain(*rows)])

    def models(self, problem: str) -> list[str]:
        """The model ids of a shipped problem."""
        return list(self.full_ids(problem))

    def full_ids(self, problem: str) -> dict[str, str]:
        """Model id → full id, of a shipped problem."""
        from warehouse.problem.spec import load_problem

        models = load_problem(problem, self.workspace).models
        return {model.model_id: model.full_id for model in models}

    def target(self, problem: str, scores: dict[str, float]) -> None:
        """Scores of a measured target, in place of the earlier ones: two items around each."""
        folder = self.workspace.store / "downstream" / f"problem={problem}"
        shutil.rmtree(folder, ignore_errors=True)
        for model, score in scores.items():
            items = [
                {"task": "recall_64", "item": item, "cluster": item, "score": score + deviation}
                for item, deviation in enumerate((-0.01, 0.01))
            ]
            table = pa.Table.from_pylist(items, schema=DOWNSTREAM)
            write_table(folder / f"model_id={model}" / "items.parquet", table)

    def depths(self, problem: str, lengths: Sequence[tuple[str, int]]) -> None:
        """Items of a recall target by depth, which leave the scores of `target` as they are.

        Args:
            lengths: a kind of task and tokens of context, for each task, with two items an eighth.
                Kind `a` scores an eighth more in each eighth of the context; `b` scores 0, also at
                no depth.
        """
        for model, folder in self._target_folders(problem):
            items, asked = [], []
            for (kind, length), eighth, cluster in product(lengths, [*range(8), None], (0, 1)):
                if kind == "a" and eighth is None:
                    continue
                key = {"task": f"{kind}_{length}", "item": len(items) + 2}
                score = eighth / 8 if kind == "a" and eighth else 0.0
                items.append(key | {"cluster": cluster, "score": score})
                depth = None if eighth is None else eighth / 8 + 0.01
                asked.append(
                    key | {"kind": kind, "length": length, "depth": depth, "counts": False}
                )
            there = pq.read_table(folder / "items.parquet", partitioning=None)
            added = pa.Table.from_pylist(items, schema=DOWNSTREAM)
            write_table(folder / "items.parquet", pa.concat_tables([there.cast(DOWNSTREAM), added]))
            place = (
                self.workspace.store / "recall_items" / f"problem={problem}" / f"model_id={model}"
            )
            write_table(place / "items.parquet", pa.Table.from_pylist(asked, schema=RECALL_ITEMS))

    def _target_folders(self, problem: str) -> list[tuple[str, Path]]:
        folders = sorted(
            (self.workspace.store / "downstream" / f"problem={problem}").glob("model_id=*")
        )
        return [(folder.name.partition("=")[2], folder) for folder in folders]

    def scores(self, problem: str) -> dict[str, float]:
        """The scores that `target` wrote."""
        with connect_to_targets(self.workspace) as connection:
            rows = connection.execute(
                "select model_id, score from downstream_scores"
                " where problem = ? and task = 'overall'",
                [problem],
            ).fetchall()
        return dict(rows)

    def metric(
        self,
        problem: str,
        metric: str,
        variant: str,
        values: dict[str, float | None],
        direction: str = "higher",
        admissible: bool = True,
        family: str = "likelihood",
    ) -> None:
        """One variant: its catalogue line (once) and its values."""
        line = (metric, variant, family, '{"k": 1}', direction, admissible, "mean(nll)", "Text.",
                "select 1")  # fmt: skip
        with self.write() as connection:
            known = connection.execute(
                "select 1 from metric_catalog where metric = ? and variant = ?", [metric, variant]
            ).fetchone()
        if not known:
            self._insert("metric_catalog", [line])
        rows = [(problem, metric, variant, m, v, 1000, 50, None) for m, v in values.items()]
        self._insert("metric_values", rows)

    def record_build(self, problem: str = "minilong", **changed: str) -> None:
        """Record in the database that the metrics were built from what is there now.

        Args:
            changed: hashes by part that were others then.
        """
        parts = dict(read_states(self.workspace, problem, ["metric_values"]).current.parts)
        with self.write() as connection:
            connection.execute(
                "create or replace table main.built_tables (model varchar, sources varchar[],"
                " parents varchar[], problem varchar, parts map(varchar, varchar));"
            )
            connection.execute(
                "insert into main.built_tables values ('metric_values', [], [], ?, ?)",
                [problem, parts | changed],
            )

    def coverage(self, problem: str, condition: str, missing: dict[str, int] | None = None) -> None:
        """50 documents of every model, less those said to be missing."""
        rows = []
        for model in self.models(problem):
            lost = (missing or {}).get(model, 0)
            rows.append(
                (problem, model, condition, condition, 50, 50 - lost, 0, lost, lost == 0,
                 50_000, 60_000, 50_000, 120.0, 2_000_000_000, None)
            )  # fmt: skip
        units = [
            (problem, model, condition, "{}", doc_id, "done", "cuda", "bfloat16", "2.7", "5.0",
             "0.1", "c0ffee", False, 0, 1200, 1000, 2.5, 2_000_000_000, 1200, 1200, "sdpa")
            for model in self.models(problem)
            for doc_id in range(2)
        ]  # fmt: skip
        self._insert("coverage", rows)
        self._insert("units", units)

    def profile(self, problem: str) -> None:
        """NLL and gain over six bands of positions, for every model."""
        rows = [
            (problem, model, condition, 2**band, 2 ** (band + 1), 100, 50, 3.0 - 0.1 * band, None,
             0.1 * band if condition == "window_512" else None, 2.0, 0.5)
            for model in self.models(problem)
            for condition in ("full", "window_512")
            for band in range(6, 12)
        ]  # fmt: skip
        self._insert("position_profile", rows)

    def registry(self, problem: str) -> None:
        """The model and document tables."""
        models = [
            (problem, model_id, full_id, "abc123", "tok", "[]")
            for model_id, full_id in self.full_ids(problem).items()
        ]
        documents = [(problem, i, f"doc {i}", f"{i}" * 64, 9, 9, "some text") for i in range(2)]
        self._insert("models", models)
        self._insert("documents", documents)

    def manifest(
        self,
        metrics: dict[str, list[str]],
        needs: str = "full",
        variants: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """dbt's manifest: metric → names of its direct parents; all have the same variants."""
        nodes: dict[str, Any] = {}
        parents: dict[str, list[str]] = {
            "model.tokenmart.stg_token_stats": ["source.tokenmart.extract.tokens"],
        }
        for metric, above in metrics.items():
            name = f"model.tokenmart.{metric}"
            meta = {
                "metric": metric,
                "family": "likelihood",
                "direction": "higher",
                "admissible": True,
                "needs": needs,
                "defaults": {},
                "variants": variants or {},
            }
            nodes[name] = {
                "resource_type": "model",
                "original_file_path": f"models/metrics/{metric}.sql",
                "raw_code": "select 1",
                "depends_on": {"macros": []},
                "config": {"meta": meta},
            }
            parents[name] = [f"model.tokenmart.{parent}" for parent in above]
        path = self.workspace.dbt_project / "target" / "manifest.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"nodes": nodes, "macros": {}, "parent_map": parents}))


@contextmanager
def copied_checkout(filled: Path, root: Path) -> Iterator[None]:
    """A copy in `root`, which commands find within the block, as a test with `workspace` has it."""
    shutil.copytree(filled, root, dirs_exist_ok=True)
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_HOME", str(root))
        for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
            patch.delenv(name, raising=False)
        yield


@contextmanager
def scores_absent(workspace: Workspace) -> Iterator[None]:
    """Before any target score was recorded: the files are elsewhere within the block."""
    elsewhere = (workspace.store / "downstream").with_name("downstream-elsewhere")
    (workspace.store / "downstream").rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(workspace.store / "downstream")


def fill_minilong(marts: Marts) -> Marts:
    """Fill an empty warehouse as the fixture `minilong` says."""
    generator = np.random.default_rng(5)
    models = marts.models("minilong")
    truth = dict(zip(models, generator.permutation(len(models)) / len(models), strict=True))
    marts.target("minilong", truth)
    noise = {m: float(generator.normal()) for m in models}
    marts.metric("minilong", "good", "a", {m: 2 * truth[m] + 0.05 * noise[m] for m in models})
    marts.metric("minilong", "perplexity", "per_token", {m: 9 - noise[m] for m in models}, "lower")
    marts.metric("minilong", "longppl", "evaluator", truth, admissible=False, family="longppl")
    marts.metric(
        "minilong", "partly", "a", {m: truth[m] if i else None for i, m in enumerate(models)}
    )
    for variant in range(4):
        values = {m: float(generator.normal()) for m in models}
        marts.metric("minilong", "noise", f"v{variant}", values, family="noise")
    marts.coverage("minilong", "full")
    marts.registry("minilong")
    marts.manifest({m: ["stg_token_stats"] for m in ("good", "longppl", "perplexity", "partly")})
    marts.record_build("minilong")
    return marts
