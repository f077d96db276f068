"""Read the tables of problems of kind `table`, and store scores, provenance and target."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from plugins.benchmarks.refusal import refused
from plugins.benchmarks.schema import BENCHMARK_SCORES, BENCHMARK_TABLES, MODEL_SCORES
from plugins.benchmarks.scores.metric_directions import Direction
from plugins.benchmarks.scores.score_table import read_model_scores, read_scores
from plugins.benchmarks.scores.table_notes import notes_on
from plugins.benchmarks.scores.table_problem import TableProblem, TableTarget
from warehouse.files import sha256_file, storage_errors
from warehouse.paths import Workspace
from warehouse.sources.folders import ProblemFolders
from warehouse.store.parquet_files import read_table as read_parquet
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM

_NO_FOLDER = re.compile(r"[=%?\\\x00-\x1f\x7f]|__HIVE_DEFAULT_PARTITION__|^$")
"""Names that DuckDB changes when it reads them from a partition's folder."""


@dataclass(frozen=True)
class BroughtScores:
    """A problem's table in the format of the store.

    scores: rows with the columns of `BENCHMARK_SCORES`, or of `MODEL_SCORES` if models are ranked.
    facts: the row of `BENCHMARK_TABLES`.
    target: items of the downstream table by ranked entry.
    notes: what was assumed, one sentence each.
    """

    scores: pa.Table
    facts: pa.Table
    target: dict[str, pa.Table]
    notes: tuple[str, ...] = ()


def read_table(problem: TableProblem, workspace: Workspace) -> BroughtScores:
    """The problem's table, read and checked.

    If models are ranked, scores of the target are never among the predicting scores.

    Raises:
        TokenmartError: the checksum differs, a row is invalid, the table has nothing to predict
            from or no target, or the name of an entry is not valid for a folder.
    """
    path = ProblemFolders(workspace, problem.name).resolve(problem.table.path)
    if not path.is_file():
        raise refused(
            path, f"no such file; correct table.path of problem {problem.argument}", "no-file"
        )
    sha256 = sha256_file(path)
    if problem.table.sha256 not in (None, sha256):
        raise refused(
            path,
            f"sha256 is {sha256}, problem {problem.argument} expects {problem.table.sha256}",
            "other-sha256",
        )
    target, ranks_models = problem.target, bool(problem.predict.metrics)
    assumed: dict[str, Direction] = {}
    scores = (read_model_scores if ranks_models else read_scores)(path, assumed)
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        notes = notes_on(connection, "scores", assumed)
    kept = _predicting(path, problem, workspace, scores) if ranks_models else scores
    sizes = set() if ranks_models else set(scores["size"].to_pylist())
    if unknown := set(problem.predict.sizes) - sizes:
        listed = ", ".join(sorted(sizes - {None})) or "none"
        raise refused(path, f"no run of size {', '.join(unknown)} (sizes: {listed})", "no-size")
    early = problem.early
    facts = {
        "path": path.name,
        "sha256": sha256,
        "source": problem.table.source,
        "licence": problem.table.licence,
        "early_until_tokens": early.until_tokens,
        "early_until_share": early.until_share,
        "early_every_steps": early.every_steps,
        "early_checkpoints": early.checkpoints,
        "predict_from": json.dumps(problem.predict.names),
        "target_metric": None if target is None else target.metric,
        "target_size": None if target is None else target.size,
        "notes": "\n".join(notes) or None,
    }
    return BroughtScores(
        scores=kept,
        facts=pa.Table.from_pylist([facts], BENCHMARK_TABLES),
        target={} if target is None else _target(path, scores, target, ranks_models),
        notes=notes,
    )


def _predicting(
    path: Path, problem: TableProblem, workspace: Workspace, scores: pa.Table
) -> pa.Table:
    """The scores of models that predict the target."""
    metrics, target = problem.predict.metrics, problem.target
    known = set(scores["metric"].to_pylist())
    if unknown := set(metrics) - known:
        raise refused(
            path,
            f"no {', '.join(unknown)} to predict from (its metrics: {', '.join(sorted(known))})",
            "no-metric",
        )
    if computed := set(workspace.metric_names).intersection(metrics):
        raise refused(
            path,
            f"Tokenmart computes {', '.join(computed)} from tokens; give the metric another name "
            "in the table and in predict.metrics",
            "own-metric",
        )
    predicts = pc.is_in(scores["metric"], pa.array(metrics))
    if target is not None:
        asked = pc.equal(scores["metric"], target.metric)
        if target.benchmarks:
            asked = pc.and_(asked, pc.is_in(scores["benchmark"], pa.array(target.benchmarks)))
        predicts = pc.and_(predicts, pc.invert(asked))
    kept = scores.filter(predicts)
    if not len(kept):
        raise refused(
            path,
            "all scores that it predicts from are the target's; add metrics to predict.metrics, or "
            "name target.benchmarks",
            "no-predictor",
        )
    place = kept.schema.get_field_index("each_document")
    alone = pa.array([problem.predict.each_document] * len(kept))
    return kept.set_column(place, "each_document", alone).cast(MODEL_SCORES)


def store_scores(brought: BroughtScores, workspace: Workspace, problem: TableProblem) -> None:
    """Write a problem's table to the data folder.

    The target is stored in `downstream`, like all targets; no metric reads it. Scores that are
    later than those to predict from aren't stored.

    Raises:
        TokenmartError: a metric has another direction in the table of another problem.
        StorageError: the disk is full or the folder can't be written.
    """
    _refuse_other_directions(brought, workspace, problem.name)
    folder = f"problem={problem.name}"
    over_training = workspace.store / "benchmark_scores" / folder / "scores.parquet"
    of_models = workspace.store / "model_scores" / folder / "scores.parquet"
    ranks_models = brought.scores.schema.equals(MODEL_SCORES)
    write_table(
        of_models if ranks_models else over_training, _without_later(brought.scores, problem)
    )
    earlier = over_training if ranks_models else of_models  # written for another problem file
    with storage_errors(earlier):
        earlier.unlink(missing_ok=True)
    write_table(workspace.store / "benchmark_tables" / folder / "table.parquet", brought.facts)
    targets = {
        workspace.store / "downstream" / folder / f"model_id={model_id}" / "items.parquet": items
        for model_id, items in brought.target.items()
    }
    for path in (workspace.store / "downstream" / folder).glob("model_id=*/items.parquet"):
        if path not in targets:  # written for an earlier target
            with storage_errors(path):
                path.unlink()
    for path, items in targets.items():
        write_table(path, items)


def _refuse_other_directions(brought: BroughtScores, workspace: Workspace, problem: str) -> None:
    """The catalogue has one direction for each metric, whichever problem has it."""

    def directions(scores: pa.Table) -> dict[str, str]:
        rows = scores.select(["metric", "direction"]).to_pylist()
        return {row["metric"]: row["direction"] for row in rows}

    better = directions(brought.scores)
    for place in ("benchmark_scores", "model_scores"):
        for path in sorted((workspace.store / place).glob("problem=*/scores.parquet")):
            other = path.parent.name.partition("=")[2]
            known = directions(read_parquet(path, ["metric", "direction"]))
            for metric, direction in known.items():
                if other != problem and better.get(metric, direction) != direction:
                    what = f"{better[metric]} is better here, {direction} in problem {other}"
                    raise refused(metric, f"{what}; rename one of the two", "other-direction")


def _without_later(scores: pa.Table, problem: TableProblem) -> pa.Table:
    """The scores, null where they are later than what the target is predicted from.

    Earlier ones are at most at the last share of training in `predict`, or of runs of its sizes.
    """
    if problem.target is None or problem.predict.metrics:
        return scores
    predict = problem.predict
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        rows = connection.sql(
            """
            with placed as (
                select
                    *,
                    coalesce(tokens, step, 0) as progress,
                    -- 1e-9: see int_benchmark_stages
                    coalesce(size in (select unnest($sizes)), false)
                    or progress / max(progress) over (partition by model_id) <= $share + 1e-9
                        as is_earlier
                from scores
            )

            select
                * exclude (progress, is_earlier) replace (
                    if(is_earlier, score, null) as score,
                    if(is_earlier, stderr, null) as stderr
                )
            from placed
            order by benchmark, metric, model_id, tokens, step
            """,
            params={"sizes": list(predict.sizes), "share": max(predict.shares, default=-1.0)},
        )
        return rows.to_arrow_table().cast(BENCHMARK_SCORES)


def _target(
    file: Path, scores: pa.Table, target: TableTarget, ranks_models: bool
) -> dict[str, pa.Table]:
    """Items of the downstream table by ranked entry, those that have every benchmark.

    One per benchmark: its score at the end of the run, which some may lack; of recipes the mean of
    their runs; of models the mean over its documents.
    """
    at = "0" if ranks_models else "coalesce(tokens, step, 0)"
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        rows = connection.execute(
            f"""
            with ends as (
                select *, max({at}) over (partition by model_id) as run_end
                from scores
            ),

            last as (
                select {"recipe" if target.size else "full_id"} as ranked, *
                from ends
                where metric = $metric
                    and (len($benchmarks) = 0 or benchmark in (select unnest($benchmarks)))
                    and {"size = $size" if target.size else "$size is null"}
                    and {at} = run_end
            )

            select ranked, benchmark, avg(score), any_value(direction)
            from last
            where ranked is not null
            group by ranked, benchmark
            order by all
            """,
            {"metric": target.metric, "size": target.size, "benchmarks": list(target.benchmarks)},
        ).fetchall()
    if "lower" in {row[3] for row in rows}:
        raise refused(file, f"target.metric: lower {target.metric} is better", "lower-target")
    missing = sorted(set(target.benchmarks).difference(row[1] for row in rows))
    if missing or not rows:
        metrics = ", ".join(sorted(set(scores["metric"].to_pylist())))
        named = ", ".join(missing) or "any benchmark"
        what = f"no {target.metric} of {named} to predict (its metrics: {metrics})"
        raise refused(file, what, "no-target")
    items: dict[str, list[dict[str, object]]] = {}
    for name, benchmark, score, _ in rows:
        item = {"task": benchmark, "item": 0, "cluster": 0, "score": score}
        items.setdefault(name, []).append(item)
    whole = max(map(len, items.values()))
    kept = {name: found for name, found in items.items() if len(found) == whole}
    for name in kept:
        if wrong := _NO_FOLDER.search(name):
            what = f"{name!r} can't name a folder (it has {wrong[0]!r})"
            raise refused(file, what, "no-folder")
    return {
        name.replace("/", "--"): pa.Table.from_pylist(rows_of, DOWNSTREAM)
        for name, rows_of in kept.items()
    }
