"""Store tables of scores: scores, provenance and target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from plugins.benchmarks.scores.metric_directions import Direction
from plugins.benchmarks.scores.score_table import (
    direction_notes,
    read_model_scores,
    read_scores,
    tokens_notes,
)
from plugins.benchmarks.scores.table_notes import (
    EarlyWindow,
    early_ends,
    family_notes,
    recipe_notes,
    scale_notes,
)
from plugins.benchmarks.tables.benchmarks import BENCHMARK_SCORES, BENCHMARK_TABLES, MODEL_SCORES
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.files import sha256_file, storage_errors
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOWNSTREAM

_NO_FOLDER = re.compile(r"[=%?\\\x00-\x1f\x7f]|__HIVE_DEFAULT_PARTITION__|^$")
"""Names that DuckDB changes when it reads them from a partition's folder."""


@dataclass(frozen=True)
class FinalScores:
    """Target of early scores: the last score of each run in `metric`.

    benchmarks: benchmarks of the target; if empty, all that have the metric.
    size: runs of this size only, averaged by recipe; None if runs are ranked.
    """

    metric: str
    benchmarks: tuple[str, ...] = ()
    size: str | None = None


@dataclass(frozen=True)
class ScoreSource:
    """Path of a plain table, and facts about it; `sha256` is the expected checksum, if any."""

    path: Path
    source: str | None = None
    licence: str = "unknown"
    sha256: str | None = None


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


def read_problem_scores(
    problem: str,
    file: ScoreSource,
    early: EarlyWindow,
    predict_from: tuple[str, ...],
    target: FinalScores | None,
) -> BroughtScores:
    """Read and check the plain table of a problem.

    Args:
        problem: name of the problem, for messages.
        file: see `score_table.read_scores`.
        early: the early checkpoints.
        predict_from: shares of training, or sizes, whose scores become metrics.
        target: the target.

    Raises:
        TokenmartError: the checksum differs, a row is invalid, the table has no target, or the name
            of an entry is not valid for a folder.
    """
    path, found = file.path, _checked_sha256(problem, file)
    assumed: dict[str, Direction] = {}
    scores = read_scores(path, assumed=assumed)
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        notes = (
            *direction_notes(assumed),
            *tokens_notes(pc.max(scores["tokens"]).as_py()),
            *recipe_notes(connection, "scores"),
            *(() if target and target.size else family_notes(connection, "scores")),
            *scale_notes(connection, "scores"),
            *early_ends(scores),
        )
    sizes = set(scores["size"].to_pylist()) - {None}
    for name in predict_from:
        if not _is_number(name) and name not in sizes:
            raise TokenmartError(
                f"{path}: no run of size {name!r}, which problem {problem} predicts from; "
                f"{did_you_mean(name, sizes)}its sizes: {', '.join(sorted(sizes)) or 'none'}"
            )
    return BroughtScores(
        scores=scores,
        facts=_facts(file, found, predict_from, target, notes, early),
        target={} if target is None else _final_scores(path, scores, target),
        notes=notes,
    )


def read_model_problem(
    problem: str,
    file: ScoreSource,
    metrics: tuple[str, ...],
    each_document: bool,
    target: FinalScores | None,
) -> BroughtScores:
    """Read and check the plain table of a problem that ranks models, not runs over training.

    Scores of the target are never among the predicting scores.

    Args:
        problem: name of the problem, for messages.
        file: see `score_table.read_model_scores`.
        metrics: metrics of the predicting scores.
        each_document: make each document of a score a separate metric too.
        target: the target.

    Raises:
        TokenmartError: the checksum differs, a row is invalid, or the table has no predicting
            scores.
    """
    path, found = file.path, _checked_sha256(problem, file)
    assumed: dict[str, Direction] = {}
    scores = read_model_scores(path, assumed)
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        notes = (*direction_notes(assumed), *scale_notes(connection, "scores"))
    known = set(scores["metric"].to_pylist())
    for name in metrics:
        if name not in known:
            raise TokenmartError(
                f"{path}: no {name} to predict from; {did_you_mean(name, known)}correct "
                f"predict.metrics of problem {problem} (metrics in the file: "
                f"{', '.join(sorted(known))})"
            )
    predicts = pc.is_in(scores["metric"], pa.array(metrics))
    if target is not None:
        asked = pc.equal(scores["metric"], target.metric)
        if target.benchmarks:
            asked = pc.and_(asked, pc.is_in(scores["benchmark"], pa.array(target.benchmarks)))
        predicts = pc.and_(predicts, pc.invert(asked))
    kept = scores.filter(predicts)
    if not len(kept):
        raise TokenmartError(
            f"{path}: problem {problem} predicts all scores that it predicts from; add metrics to "
            "predict.metrics, or name target.benchmarks"
        )
    place = kept.schema.get_field_index("each_document")
    alone = pa.array([each_document] * len(kept))
    return BroughtScores(
        scores=kept.set_column(place, "each_document", alone).cast(MODEL_SCORES),
        facts=_facts(file, found, metrics, target, notes),
        target={} if target is None else _target_of_models(path, scores, target),
        notes=notes,
    )


def _checked_sha256(problem: str, file: ScoreSource) -> str:
    if not file.path.is_file():
        raise TokenmartError(f"{file.path}: no such file; correct table.path of problem {problem}")
    found = sha256_file(file.path)
    if file.sha256 not in (None, found):
        raise TokenmartError(
            f"{file.path}: sha256 is {found}, problem {problem} expects {file.sha256}; restore the "
            "file, or correct table.sha256"
        )
    return found


def _facts(
    file: ScoreSource,
    sha256: str,
    predict_from: tuple[str, ...],
    target: FinalScores | None,
    notes: Sequence[str],
    early: EarlyWindow | None = None,
) -> pa.Table:
    """The row of `BENCHMARK_TABLES`."""
    window = early or EarlyWindow()
    facts = {
        "path": file.path.name,
        "sha256": sha256,
        "source": file.source,
        "licence": file.licence,
        "early_until_tokens": window.until_tokens,
        "early_until_share": window.until_share,
        "early_every_steps": window.every_steps,
        "early_checkpoints": window.checkpoints,
        "predict_from": ",".join(predict_from),
        "target_metric": None if target is None else target.metric,
        "target_size": None if target is None else target.size,
        "notes": "\n".join(notes) or None,
    }
    return pa.Table.from_pylist([facts], BENCHMARK_TABLES)


def store_scores(brought: BroughtScores, workspace: Workspace, problem: str) -> None:
    """Write a problem's table to the data folder.

    The target is stored in `downstream`, like all targets; no metric reads it.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = f"problem={problem}"
    over_training = workspace.store / "benchmark_scores" / folder / "scores.parquet"
    of_models = workspace.store / "model_scores" / folder / "scores.parquet"
    ranks_models = brought.scores.schema.equals(MODEL_SCORES)
    write_table(of_models if ranks_models else over_training, brought.scores)
    earlier = over_training if ranks_models else of_models  # written for another problem file
    with storage_errors(earlier):
        earlier.unlink(missing_ok=True)
    write_table(workspace.store / "benchmark_tables" / folder / "table.parquet", brought.facts)
    targets = {
        workspace.downstream / folder / f"model_id={model_id}" / "items.parquet": items
        for model_id, items in brought.target.items()
    }
    for path in (workspace.downstream / folder).glob("model_id=*/items.parquet"):
        if path not in targets:  # written for an earlier target
            with storage_errors(path):
                path.unlink()
    for path, items in targets.items():
        write_table(path, items)


def stored_scores(workspace: Workspace, problem: str) -> Path | None:
    """The scores of a problem in the data folder; None before they are downloaded."""
    for place in (workspace.store / "benchmark_scores", workspace.store / "model_scores"):
        path = place / f"problem={problem}" / "scores.parquet"
        if path.is_file():
            return path
    return None


@dataclass(frozen=True)
class ScoredRun:
    """One ranked entry of a table problem: a run, a recipe (if sizes are compared), or a model."""

    full_id: str
    family: str
    parameters: int | None
    on_request: bool = False

    @property
    def model_id(self) -> str:
        """The partition key: the full id with `/` replaced."""
        return self.full_id.replace("/", "--")


def scored_runs(scores: Path, sizes: Sequence[str] = ()) -> tuple[ScoredRun, ...]:
    """Ranked entries of a stored table, by name.

    Args:
        scores: result of `stored_scores`.
        sizes: rank the recipes that have a run of each of these sizes; if empty, rank runs.
    """
    columns = ["full_id", "family", "parameters", *(["size", "recipe"] if sizes else [])]
    rows = read_table(scores, columns).group_by(columns)
    runs = sorted(rows.aggregate([]).to_pylist(), key=lambda row: str(row["full_id"]))
    if sizes:
        trained = [{row["recipe"] for row in runs if row["size"] == size} for size in sizes]
        recipes = set.intersection(*trained) - {None}
        return tuple(ScoredRun(recipe, recipe, None) for recipe in sorted(recipes))
    return tuple(ScoredRun(row["full_id"], row["family"], row["parameters"]) for row in runs)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _final_scores(file: Path, scores: pa.Table, target: FinalScores) -> dict[str, pa.Table]:
    """Items of the downstream table by ranked entry: one per benchmark, its last score."""
    name = "full_id" if target.size is None else "recipe"
    with duckdb.connect() as connection:
        connection.register("scores", scores.cast(BENCHMARK_SCORES))
        chosen = (
            "select * from scores where metric = $metric and (size = $size or $size is null)"
            " and (len($benchmarks) = 0 or benchmark in (select unnest($benchmarks)))"
        )
        parameters = {
            "metric": target.metric,
            "size": target.size,
            "benchmarks": list(target.benchmarks),
        }
        rows = connection.execute(
            f"with chosen as ({chosen}), last as (select {name} as ranked, model_id, benchmark,"
            " arg_max(score, coalesce(tokens, step, 0)) as score from chosen group by all)"
            " select ranked, benchmark, avg(score) from last where ranked is not null"
            " group by all order by all",
            parameters,
        ).fetchall()
    return _target_items(file, scores, target, rows)


def _target_of_models(file: Path, scores: pa.Table, target: FinalScores) -> dict[str, pa.Table]:
    """The same for a table of models: one item per benchmark, the mean over its documents."""
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        rows = connection.execute(
            "select full_id, benchmark, avg(score) from scores where metric = ?"
            " and (len(?) = 0 or benchmark in (select unnest(?))) group by all order by all",
            [target.metric, list(target.benchmarks), list(target.benchmarks)],
        ).fetchall()
    return _target_items(file, scores, target, rows)


def _target_items(
    file: Path,
    scores: pa.Table,
    target: FinalScores,
    rows: list[tuple[str, str, float]],
) -> dict[str, pa.Table]:
    """Items of the downstream table; `rows`: ranked entry, benchmark and score."""
    directions = scores.filter(pc.equal(scores["metric"], target.metric))["direction"]
    if "lower" in directions.to_pylist():
        raise TokenmartError(
            f"{file}: lower {target.metric} is better; choose a target.metric of which higher is"
        )
    known = {benchmark for _, benchmark, _ in rows}
    for name in target.benchmarks or ([] if rows else ["any benchmark"]):
        if name not in known:
            metrics = ", ".join(sorted(set(scores["metric"].to_pylist())))
            raise TokenmartError(
                f"{file}: no {target.metric} of {name} to predict; correct target.metric or "
                f"target.benchmarks (metrics in the file: {metrics})"
            )
    items: dict[str, list[dict[str, object]]] = {}
    for name, benchmark, score in rows:
        items.setdefault(name, []).append(
            {"task": benchmark, "item": 0, "cluster": 0, "score": score}
        )
    whole = max(map(len, items.values()))
    kept = [name for name, found in items.items() if len(found) == whole]
    column = "model" if target.size is None else "recipe"
    return {
        folder: pa.Table.from_pylist(items[name], DOWNSTREAM)
        for name, folder in _folders(file, column, kept).items()
    }


def _folders(file: Path, column: str, names: Iterable[str]) -> dict[str, str]:
    """Partition key of each ranked entry's name.

    Raises:
        TokenmartError: a name is not valid for a folder, or two names are equal, also on a disk
            that ignores case.
    """
    seen: dict[str, str] = {}
    folders = {}
    for name in names:
        if wrong := _NO_FOLDER.search(name):
            why = f"it has {wrong[0]!r}" if name else "it is empty"
            raise TokenmartError(
                f"{file}: {column} {name!r} can't name a folder ({why}); rename it in every row"
            )
        folders[name] = name.replace("/", "--")
        other = seen.setdefault(folders[name].casefold(), name)
        if other != name:
            raise TokenmartError(
                f"{file}: {column} {other!r} and {name!r} would share the folder "
                f"{folders[name]!r}; rename one in every row"
            )
    return folders
