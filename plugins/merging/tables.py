"""Tables of the store that rankings and merges add."""

from __future__ import annotations

import pyarrow as pa

from warehouse.store.schema import Table, field

RANKING_COLUMNS = pa.schema(
    [
        field("round", pa.string(), "round of the competition, e.g. open or hidden"),
        field("round_weight", pa.float64(), "weight in the overall score; 0 to leave it out"),
        field("task_group", pa.string(), "columns of one group share a mean win rate"),
        field("task", pa.string(), "task or scenario"),
        field("metric", pa.string(), "scoring method"),
        field("direction", pa.string(), "which values win: higher or lower"),
        field("given", pa.string(), "score, or mean_win_rate if imported as such"),
        field("condition", pa.string(), "benchmark run here; null for imported results", True),
    ]
)
"""Columns of a ranking, one row per metric of a task in a round."""

RANKING_RESULTS = pa.schema(
    [
        field("round", pa.string(), "round of the competition"),
        field("entry", pa.string(), "ranked entry"),
        field("task", pa.string(), "task or scenario"),
        field("metric", pa.string(), "scoring method"),
        field("item", pa.int64(), "item of the task; null for a value of the whole task", True),
        field("cluster", pa.string(), "items of one cluster share a text", True),
        field("value", pa.float64(), "the result; null if the run failed", True),
    ]
)
"""Results of entries that were made elsewhere, one row per column or per item of it."""

MERGE_ENTRIES = pa.schema(
    [
        field("entry", pa.string(), "a merge of the problem file"),
        field("recipe_sha256", pa.string(), "hash of its recipe and seed"),
        field("fingerprint", pa.string(), "hash of the weights that it makes; empty if unknown"),
    ]
)
"""Merges of a problem file when it was used last: a ranking has these, with these weights."""

MERGE_RUNS = pa.schema(
    [
        field("stage", pa.string(), "merge, or evaluation in a round"),
        field("round", pa.string(), "round of the evaluation; empty for a merge"),
        field("fingerprint", pa.string(), "hash of everything that the merged weights depend on"),
        field("method", pa.string(), "mergekit's name of the method"),
        field("parameters", pa.int64(), "of the merged checkpoint, counted"),
        field("checkpoint_bytes", pa.int64(), "size of the merged checkpoint's files"),
        field("seconds", pa.float64(), "wall-clock seconds"),
        field("peak_bytes", pa.int64(), "peak resident memory of the processes, in bytes"),
        field("gpu_bytes", pa.int64(), "peak memory of GPUs, in bytes; null without one", True),
        field("disk_bytes", pa.int64(), "peak of files written meanwhile, in bytes"),
        field("limit_seconds", pa.float64(), "limit of the wall-clock seconds", True),
        field("limit_peak_bytes", pa.float64(), "limit of the memory, in bytes", True),
        field("limit_gpu_bytes", pa.float64(), "limit of the memory of GPUs, in bytes", True),
        field("limit_disk_bytes", pa.float64(), "limit of written files, in bytes", True),
        field("ended", pa.string(), "reason why it was ended or failed, else empty"),
    ]
)
"""Costs of merges and their evaluations, one row each."""

TABLES = {
    "ranking_columns": Table(RANKING_COLUMNS, ("problem",), "columns.parquet"),
    "ranking_results": Table(RANKING_RESULTS, ("problem",), "results.parquet"),
    "merge_entries": Table(MERGE_ENTRIES, ("problem",), "entries.parquet"),
    "merge_runs": Table(MERGE_RUNS, ("problem", "model_id"), "runs.parquet"),
}
