"""Freezing what a build found into small files, and opening them as a warehouse again.

The files hold values per document, scores of the target and what it all cost: no token and no text.
A manifest says what they are made of and has the hash of each.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb

from analysis.results.joined import TARGET_TABLES, join
from warehouse.errors import StorageError, TokenmartError
from warehouse.files import sha256_file, storage_errors, write_whole
from warehouse.metrics.dbt_process import values_from_documents
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


def freeze(problem: Ranked, workspace: Workspace, folder: Path, *, add: bool = False) -> Frozen:
    """Write the tables of a problem from a built warehouse.

    Args:
        problem: of which there are metrics and scores.
        workspace: with the warehouse and the token files.
        folder: the files go there; those of the same names are replaced.
        add: keep what is frozen in `folder`, its target included, and add the documents that were
            read here; what was tried against that target then stays remembered, too.

    Raises:
        TokenmartError: nothing is built, no target was measured, or what is to be added to is of
            other models, documents or definitions.
        StorageError: a file can't be written, or the tables to add to are not those frozen.
    """
    before = _before(folder, problem) if add else None
    with connect_for_queries(workspace) as connection:
        found = {
            name: _arrow(connection, sql, problem.name)
            for name, sql in TABLES.items()
            if before is None or name not in TARGET_TABLES
        }
    part = {
        "frozen_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **code_revision(),
        "first_finished": _first_finished(found["costs"]),
        "documents": _documents(found["metric_documents"]),
        "target": before is None,
        "campaign": _campaign_log(workspace, problem.name),
    }
    parts, tried = [part], tries(workspace, problem.name)
    if before is not None:
        _refuse_empty(found, "metric_values", "run `tokenmart dbt build`")
        parts, found = _add(before, part, found)
        documents = found["metric_documents"]
        found["metric_values"] = values_from_documents(documents, problem.name, workspace)
        tried = join_tries(tries_in(folder / TRIES), tried)
    _refuse_empty(found, "metric_values", "run `tokenmart dbt build`")
    measure = f"run `tokenmart recall --problem {problem.asked}`, then dbt build"
    _refuse_empty(found, "downstream_scores", measure)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        _write(folder / f"{name}.parquet", found[name])
    write_whole(folder / TRIES, as_json(tried))
    counts = Counter(_read_by(found["metric_documents"]).values())
    manifest = {
        "schema": SCHEMA,
        "problem": problem.name,
        **{name: part[name] for name in ("frozen_at", "revision", "dirty")},
        "versions": versions(("tokenmart", "duckdb", "dbt-core", "numpy", "scipy")),
        "rows": {name: found[name].num_rows for name in TABLES},
        "documents": [min(counts), max(counts)],
        "target": _definition(problem),
        "parts": parts,
        "sha256": {
            name: sha256_file(folder / name)
            for name in (*(f"{table}.parquet" for table in TABLES), TRIES)
        },
    }
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return Frozen(folder, manifest)


def frozen_parts(tables: Frozen) -> list[dict[str, Any]]:
    """What each freezing added: when, by which code, which documents, and what it took."""
    if parts := tables.manifest.get("parts"):
        return list(parts)
    names = ("frozen_at", "revision", "dirty", "campaign")
    documents = _documents(_read(tables.folder, "metric_documents"))
    one = {name: tables.manifest[name] for name in names}
    started = _first_finished(_read(tables.folder, "costs"))
    return [one | {"first_finished": started, "documents": documents, "target": True}]


def _add(
    before: Frozen, part: dict[str, Any], found: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Join what a part brings; a run that was added before and went on since takes its own place.

    Returns:
        All parts, and the tables without `metric_values`.
    """
    parts = frozen_parts(before)
    own = [each for each in parts if each["first_finished"] == part["first_finished"]]
    known = {document for each in own for document in each["documents"]}
    tables = {name: _read(before.folder, name) for name in TABLES}
    joined = join(tables, found, before.folder, known)
    part |= {"target": any(each["target"] for each in own), **joined.as_json()}
    for each in own:
        part["overlap"] = part["overlap"] or each.get("overlap")
    return [*(each for each in parts if each not in own), part], joined.tables


def _before(folder: Path, problem: Ranked) -> Frozen:
    """The tables to add to."""
    before = frozen(folder)
    if before is None:
        raise TokenmartError(f"{folder}: nothing is frozen there to add to; freeze without --add")
    if before.manifest["problem"] != problem.name:
        raise TokenmartError(
            f"{folder}: holds {before.manifest['problem']}, to which {problem.name} can't be "
            "added; give another --out"
        )
    was, now = before.manifest.get("target"), _definition(problem)
    changed = sorted(key for key in now or {} if was and was.get(key) != (now or {})[key])
    if changed:
        raise TokenmartError(
            f"{folder}: its target was measured by another definition ({', '.join(changed)} "
            f"differ from the problem file); measure it anew: `tokenmart recall --problem "
            f"{problem.asked}`, and freeze without --add"
        )
    return before


def _read_by(documents: Any) -> dict[tuple[str, str], int]:
    """How many documents each model has read, for the metrics of each probe."""
    columns = (documents[name].to_pylist() for name in ("model_id", "variant", "doc_id"))
    read = {
        (model, variant.partition("@")[2], doc)
        for model, variant, doc in zip(*columns, strict=True)
    }
    return dict(Counter((model, probe) for model, probe, _ in read))


def _first_finished(costs: Any) -> str:
    """When a run's first unit was finished: what tells runs apart."""
    import pyarrow.compute as pc

    first = pc.min(costs["first_finished"]).as_py()
    return "" if first is None else str(first.astimezone(timezone.utc).isoformat())


def _documents(documents: Any) -> list[int]:
    return sorted(set(documents["doc_id"].to_pylist()))


def _campaign_log(workspace: Workspace, problem: str) -> Any:
    log = workspace.data / "campaigns" / f"{problem}.json"
    return json.loads(log.read_text("utf-8")) if log.is_file() else None


def _refuse_empty(found: dict[str, Any], table: str, remedy: str) -> None:
    if found[table].num_rows == 0:
        raise TokenmartError(f"{table} has no row of this problem; {remedy}")


def _definition(problem: Ranked) -> dict[str, Any] | None:
    """How the target is measured; without the number of contexts, which a run may choose."""
    target = problem.target if isinstance(problem, Problem) else None
    if not isinstance(target, RecallTarget):
        return None
    found: dict[str, Any] = target.model_dump(mode="json", exclude={"contexts"})
    return found


def _read(folder: Path, table: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(folder / f"{table}.parquet", partitioning=None)


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
