"""Freezing what a build found into small files, and opening them as a warehouse again.

The files hold values per document, scores of the target and what it all cost: no token and no text.
A manifest says what they are made of and has the hash of each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import sha256_file, storage_errors, write_whole
from warehouse.metrics.tries import as_json, join_tries, tries, tries_in
from warehouse.paths import Workspace
from warehouse.problem.recall_target import RecallTarget
from warehouse.problem.spec import Problem
from warehouse.sql.connection import connect_for_queries
from warehouse.sql.views import quoted_file
from warehouse.store.provenance import code_revision, versions

if TYPE_CHECKING:
    from warehouse.problem.table_problem import Ranked

SCHEMA = "tokenmart/results/1"
MANIFEST = "manifest.json"
TRIES = "tries.json"

TABLES = {
    "metric_values": "select * from metric_values where problem = $problem",
    "metric_documents": "select * from metric_documents where problem = $problem",
    "metric_catalog": """
        select * from metric_catalog where (metric, variant) in
            (select (metric, variant) from metric_values where problem = $problem)""",
    "downstream_scores": "select * from downstream_scores where problem = $problem",
    "downstream_depths": "select * from downstream_depths where problem = $problem",
    # an item group: what is asked of one context; its mean is what errors are clustered by
    "item_groups": """
        select problem, model_id, task, cluster, avg(score) as score, count(*) as items,
            avg(answer_nll) as answer_nll
        from downstream where problem = $problem group by all""",
    "costs": """
        select problem, model_id, condition, status, dtype, device, backend, attention, engine,
            torch_version, transformers_version, tokenmart_version, code_revision, code_dirty,
            count(*) as documents, sum(tokens_processed)::bigint as tokens_processed,
            sum(tokens_scored)::bigint as tokens_scored, sum(seconds) as seconds,
            max(peak_bytes) as peak_bytes, min(finished_at) as first_finished,
            max(finished_at) as last_finished
        from units where problem = $problem group by all""",
    "documents": """
        select problem, doc_id, name, sha256, characters, bytes
        from documents where problem = $problem""",
    "models": """
        select problem, model_id, full_id, family, base_id, revision, parameters, licence,
            tokenizer_sha256, interventions
        from models where problem = $problem""",
}
"""File → what it holds, in the words of `tokenmart sql`."""

TARGET_TABLES = ("downstream_scores", "downstream_depths", "item_groups")
"""What was measured of the target; `freeze` can keep them."""

_SAME_MODEL = ("base_id", "revision", "interventions", "tokenizer_sha256")

_RENAMED = {"costs": "units"}
"""Files that stand for a table of the warehouse under another name."""


@dataclass(frozen=True)
class Frozen:
    """Committed tables of one problem.

    Attributes:
        folder: where they lie.
        manifest: what they are made of.
    """

    folder: Path
    manifest: dict[str, Any]


def folder_of(workspace: Workspace, problem: str) -> Path:
    """Where the committed tables of a problem lie."""
    return workspace.root / "results" / problem


def freeze(
    problem: Ranked, workspace: Workspace, folder: Path, *, keep_target: bool = False
) -> Frozen:
    """Write the tables of a problem from a built warehouse.

    Args:
        problem: of which there are metrics and scores.
        workspace: with the warehouse and the token files.
        folder: the files go there; those of the same names are replaced.
        keep_target: leave the target's tables in `folder` as they were frozen, and write the
            others; what was tried against that target then stays remembered, too.

    Raises:
        TokenmartError: nothing is built, no target was measured, or the kept one is of another
            definition or other models.
        StorageError: a file can't be written, or the kept tables are not those that were frozen.
    """
    import pyarrow.compute as pc

    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, int] = {}
    kept = _kept(folder, problem) if keep_target else None
    with connect_for_queries(workspace) as connection:
        found = {
            name: _arrow(connection, sql, problem.name)
            if kept is None or name not in TARGET_TABLES
            else _read_table(folder / f"{name}.parquet")
            for name, sql in TABLES.items()
        }
    if kept is not None:
        _check_models(_read_table(folder / "models.parquet"), found["models"], folder)
    for needed, remedy in (
        ("metric_values", "run `tokenmart dbt build`"),
        ("downstream_scores", f"run `tokenmart recall --problem {problem.asked}`, then dbt build"),
    ):
        if found[needed].num_rows == 0:
            raise TokenmartError(f"{problem.name}: {needed} has no row; {remedy}")
    for name, table in found.items():
        _write(folder / f"{name}.parquet", table)
        rows[name] = table.num_rows
    read = found["costs"].filter(pc.equal(found["costs"]["status"], "done"))["documents"]
    earlier = [] if kept is None else tries_in(folder / TRIES)
    tried = join_tries(earlier, tries(workspace, problem.name))
    write_whole(folder / TRIES, as_json(tried))
    log = workspace.data / "campaigns" / f"{problem.name}.json"
    manifest = {
        "schema": SCHEMA,
        "problem": problem.name,
        "frozen_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **code_revision(),
        "versions": versions(("tokenmart", "duckdb", "dbt-core", "numpy", "scipy")),
        "rows": rows,
        "documents": [pc.min(read).as_py(), pc.max(read).as_py()],
        "target": _definition(problem),
        "target_kept": None if kept is None else _origin(kept),
        "campaign": json.loads(log.read_text("utf-8")) if log.is_file() else None,
        "sha256": {
            name: sha256_file(folder / name)
            for name in (*(f"{table}.parquet" for table in TABLES), TRIES)
        },
    }
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return Frozen(folder, manifest)


def _kept(folder: Path, problem: Ranked) -> Frozen:
    """The tables whose target is to be kept."""
    kept = frozen(folder)
    if kept is None:
        raise TokenmartError(f"{folder}: no tables are frozen there, so there is no target to keep")
    if kept.manifest["problem"] != problem.name:
        raise TokenmartError(
            f"{folder}: its target is that of {kept.manifest['problem']}, not of {problem.name}"
        )
    was, now = kept.manifest.get("target"), _definition(problem)
    changed = sorted(key for key in now or {} if was and was.get(key) != (now or {})[key])
    if changed:
        raise TokenmartError(
            f"{folder}: its target was measured by another definition ({', '.join(changed)} "
            f"differ from the problem file); measure it anew: `tokenmart recall --problem "
            f"{problem.asked}`"
        )
    return kept


def _definition(problem: Ranked) -> dict[str, Any] | None:
    """How the target is measured; without the number of contexts, which a run may choose."""
    target = problem.target if isinstance(problem, Problem) else None
    if not isinstance(target, RecallTarget):
        return None
    found: dict[str, Any] = target.model_dump(mode="json", exclude={"contexts"})
    return found


def _origin(kept: Frozen) -> dict[str, Any]:
    """Where a kept target comes from: the tables that were frozen with its measurement."""
    origin = kept.manifest.get("target_kept") or {
        name: kept.manifest[name] for name in ("frozen_at", "revision", "campaign")
    }
    return dict(origin)


def _check_models(before: Any, now: Any, folder: Path) -> None:
    """Refuse to join a target with metrics of models that are not the same."""
    then, today = (
        {row["full_id"]: [row[name] for name in _SAME_MODEL] for row in table.to_pylist()}
        for table in (before, now)
    )
    differ = sorted(
        name for name in then.keys() | today.keys() if then.get(name) != today.get(name)
    )
    if differ:
        raise TokenmartError(
            f"{folder}: its target can't be kept, {len(differ)} models are not those that it was "
            f"measured on ({', '.join(differ[:3])}{', …' if len(differ) > 3 else ''}); measure it "
            "anew, or take these models back"
        )


def _read_table(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path, partitioning=None)


def _arrow(connection: duckdb.DuckDBPyConnection, sql: str, problem: str) -> Any:
    try:
        # sorted, so that the same rows are the same file
        asked = f"select * from ({sql}) order by all"
        return connection.sql(asked, params={"problem": problem}).to_arrow_table()
    except duckdb.CatalogException as error:
        raise TokenmartError(
            f"{problem}: nothing to freeze, the warehouse lacks a table "
            f"({str(error).splitlines()[0]}); run `tokenmart dbt build`"
        ) from error


def _write(path: Path, table: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=19)
    write_whole(path, sink.getvalue().to_pybytes())


def frozen(folder: Path) -> Frozen | None:
    """The tables in a folder, their hashes checked; None where there are none.

    Raises:
        StorageError: a file is missing, or is not the one that was frozen.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        hashes: dict[str, str] = manifest["sha256"]
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"schema {manifest['schema']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path}: can't be read ({error}); restore it from git") from error
    for name, expected in hashes.items():
        file = folder / name
        if not file.is_file():
            raise StorageError(f"{file}: missing; restore it from git, or freeze anew")
        if (is_now := sha256_file(file)) != expected:
            raise StorageError(
                f"{file}: sha256 is {is_now[:12]}…, frozen was {expected[:12]}…; restore it from "
                "git, or freeze anew"
            )
    return Frozen(folder, manifest)


@contextmanager
def open_tables(tables: Frozen, workspace: Workspace) -> Iterator[Workspace]:
    """A workspace with a database of these tables alone; the checkout's own data are not seen.

    Args:
        tables: from `frozen`.
        workspace: the checkout, for problem files and pre-registrations.
    """
    with TemporaryDirectory(prefix="tokenmart-results-") as name:
        data = Path(name) / "data"
        (data / "tries").mkdir(parents=True)
        problem = tables.manifest["problem"]
        shutil.copy(tables.folder / TRIES, data / "tries" / f"problem={problem}.json")
        database = Path(name) / "results.duckdb"
        with duckdb.connect(str(database)) as connection:
            for table in TABLES:
                path = quoted_file(tables.folder / f"{table}.parquet")
                connection.execute(
                    f"create table {_RENAMED.get(table, table)} as "
                    f"from read_parquet({path}, hive_partitioning = false)"
                )
        yield Workspace(workspace.root, data, database)
