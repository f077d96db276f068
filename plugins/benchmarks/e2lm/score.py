"""Score a plain table of E2LM scores with the SQL models of the marts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from plugins.benchmarks.e2lm.scores import open_scores
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.schema import BENCHMARK_TABLES
from plugins.benchmarks.scores.metric_directions import Direction
from plugins.benchmarks.scores.score_table import read_scores, refuse_without_tokens
from plugins.benchmarks.scores.table_notes import notes_on
from warehouse.paths import Workspace
from warehouse.terminal import listed

COLUMNS = ("model", "size", "arch", "tokens_bt", "benchmark", "score")
EVERY_STEPS = 4000
UNTIL_TOKENS = 206e9
WEIGHTS = (0.5, 0.1, 0.4)

_PROBLEM = "e2lm"
_PHASE = 1_627_604
# Batches of 256, 512 and 768 sequences of 4,096 tokens over three phases of this many sequences,
# 1,024 afterwards.
_STEP = f"""
    case
        when sequences <= {_PHASE} then sequences / 256
        when sequences <= 2 * {_PHASE} then {_PHASE} / 256 + (sequences - {_PHASE}) / 512
        when sequences <= 3 * {_PHASE}
            then {_PHASE} / 256 + {_PHASE} / 512 + (sequences - 2 * {_PHASE}) / 768
        else {_PHASE} / 256 + {_PHASE} / 512 + {_PHASE} / 768 + (sequences - 3 * {_PHASE}) / 1024
    end
"""
_MODELS = "select distinct full_id from benchmark_scores order by 1"
_GRID, _SLACK = 2000, 20
"""Steps between published checkpoints, and the tolerance for rounded numbers of tokens."""

Entry = dict[str, Any]


@dataclass(frozen=True)
class SignalScores:
    """Signal statistics of a table's benchmarks.

    entries: model → benchmark → statistic → value, None if undefined; `reason` explains a missing
        `sq`, `reasons` the others.
    notes: notes on the table, one sentence each.
    """

    entries: dict[str, dict[str, Entry]]
    notes: tuple[str, ...]


def score_table(
    path: Path,
    workspace: Workspace,
    model: str | None = None,
    weights: tuple[float, float, float] = WEIGHTS,
    metric: str | None = None,
) -> SignalScores:
    """Signal quality and the other statistics of `benchmark_signal` for each model and benchmark.

    The early window is the competition's: steps divisible by 4,000, up to 206 billion tokens. For a
    model on another schedule, all checkpoints up to that limit are used, with a note.

    Args:
        path: a table with the columns `COLUMNS`; `recipe` (science, web), `stderr` and the other
            columns of a plain table are optional.
        workspace: the checkout with the SQL models.
        model: return only this model; the statistics use all models.
        weights: of SQ, RC and CS in `weighted_score`.
        metric: use only the scores of this metric; None if the table has one metric.

    Raises:
        TokenmartError: the table is invalid, or has no such model or metric.
    """
    database, notes = open_table(path, metric)
    with database:
        known = [name for (name,) in database.execute(_MODELS).fetchall()]
        if model is not None and model not in known:
            raise unknown("--model", model, known)
        variables = dict(zip(("weight_sq", "weight_rc", "weight_cs"), weights, strict=True))
        signal = ModelSql(database, workspace, variables).build("benchmark_signal")
        rows = database.execute(
            f"""
            with runs as (
                select distinct full_id as model, benchmark
                from benchmark_scores
                where full_id = $model or $model is null
            )
            select runs.model, benchmark, statistic, value, reason
            from {signal} as signal
            inner join runs using (benchmark)
            where coalesce(signal.model, runs.model) = runs.model
            order by all
            """,
            {"model": model},
        ).fetchall()
    return SignalScores(_entries(rows), notes)


def open_table(
    path: Path, metric: str | None = None
) -> tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]:
    """A plain table in memory, with the competition's early window and schedule, and notes on it.

    Args:
        path: see `score_table`.
        metric: read only the scores of this metric; None if the table has one metric.

    Raises:
        TokenmartError: the table is invalid, has no such metric, or has several without a choice.
    """
    assumed: dict[str, Direction] = {}
    scores = read_scores(path, assumed)
    metrics = sorted(set(scores["metric"].to_pylist()))
    if metric is not None:
        if metric not in metrics:
            raise unknown("--metric", metric, metrics)
        scores = scores.filter(pc.equal(scores["metric"], metric))
        assumed = {name: direction for name, direction in assumed.items() if name == metric}
    elif len(metrics) > 1:
        raise refused(
            path,
            f"contains scores of {len(metrics)} metrics ({', '.join(metrics)}), and this command "
            "uses one; choose it with --metric, or name the file in a problem file of kind table, "
            "which reads all metrics",
            "several-metrics",
        )
    refuse_without_tokens(path, scores)
    facts = {
        "path": path.name,
        "sha256": "",
        "licence": "unknown",
        "early_until_tokens": UNTIL_TOKENS,
        "early_every_steps": EVERY_STEPS,
        "predict_from": "[]",
    }
    database = open_scores(_PROBLEM, scores, pa.Table.from_pylist([facts], BENCHMARK_TABLES))
    _place_on_schedule(database)
    notes = notes_on(database, "benchmark_scores", assumed)
    off_schedule = database.execute(
        "select distinct full_id from benchmark_scores where step is null order by all"
    ).fetchall()
    if off_schedule:
        models = listed([model for (model,) in off_schedule])
        notes += (
            f"{models}: the checkpoints are not those of the competition's schedule; all up to "
            f"{UNTIL_TOKENS / 1e9:g} billion tokens count as early",
        )
    return database, notes


def _place_on_schedule(database: duckdb.DuckDBPyConnection) -> None:
    """Add the training step to the checkpoints of models on the competition's schedule."""
    database.execute(
        f"""
        update benchmark_scores set step = placed.step
        from (
            select
                model_id,
                tokens,
                case
                    when bool_and(abs(step - round(step / {_GRID}) * {_GRID}) <= {_SLACK})
                        over (partition by model_id)
                        then cast(round(step / {_GRID}) * {_GRID} as bigint)
                end as step
            from (
                select distinct model_id, tokens, {_STEP} as step
                from (select *, tokens / 4096 as sequences from benchmark_scores)
            )
        ) as placed
        where benchmark_scores.model_id = placed.model_id
            and benchmark_scores.tokens = placed.tokens
        """
    )


def _entries(rows: list[tuple[str, str, str, float | None, str | None]]) -> dict[str, Any]:
    entries: dict[str, dict[str, Entry]] = {}
    for model, benchmark, statistic, value, reason in rows:
        entry = entries.setdefault(model, {}).setdefault(benchmark, {"reason": None, "reasons": {}})
        # further digits are not reproducible, because DuckDB sums in varying order
        entry[statistic] = None if value is None else float(f"{value:.12g}")
        if value is None:
            entry["reasons"][statistic] = reason
        if statistic == "sq":
            entry["reason"] = reason
    return entries
