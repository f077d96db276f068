"""Verification of the token files against their ledgers, and mending of what is damaged.

Per file: readable, schema, ledger intact, keys sorted and unique, footer statistics true. Per
unit: row count, content hash, value ranges, gaps in positions, the document it was made from.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.paths import Workspace
from warehouse.probes.probe import condition_kinds
from warehouse.probes.request import ConditionKind
from warehouse.store.ledger import UnitRecord, content_sha256, read_ledger
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import (
    keep_units,
    partition_keys,
    pending_files,
    publication_lock,
    published_path,
    set_aside,
)

Mend = Literal["move", "drop", "rewrite", "refetch", "superseded"]
"""The file moves aside, the unit is dropped, the file is rewritten, documents are fetched.
Units of documents that changed are not damaged: extraction replaces them, or gc removes them."""

IMPORTED = "import"
"""The ledger's probe of rows that another program computed."""

Columns = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong: with a unit, or with the whole file when `doc_id` is None.

    `asked` is what `--problem` said, where that isn't the problem's name.
    """

    file: Path
    problem: str
    model_id: str
    condition: str
    doc_id: int | None
    what: str
    mend: Mend
    probe: str
    asked: str = ""

    @property
    def extract_command(self) -> str:
        """The command that computes what mending removes."""
        if self.probe == IMPORTED:
            return f"tokenmart data import --problem {self.asked or self.problem}"
        model = f" --model {self.model_id}" if self.model_id else ""
        if self.probe == "eval":
            task = self.condition.rpartition("-")[0]
            return f"tokenmart eval --problem {self.asked or self.problem} --tasks {task}{model}"
        probe = f" --probe {self.probe}" if self.probe else ""
        return f"tokenmart extract --problem {self.asked or self.problem}{model}{probe}"

    @property
    def remedy(self) -> str:
        """The commands that repair it."""
        problem = self.asked or self.problem
        if self.mend == "refetch":
            return f"tokenmart data fetch --problem {problem} --only documents"
        if self.mend == "superseded":
            return f"{self.extract_command}; or tokenmart data gc --problem {problem}"
        repair = f"tokenmart data check --problem {problem} --repair"
        return repair if self.mend == "rewrite" else f"{repair} && {self.extract_command}"


@dataclass(frozen=True)
class FileCheck:
    """Checks of one file, and its faults."""

    units: int
    rows: int
    defects: tuple[Defect, ...]
    unrecorded: int = 0
    """Done units of which no complete weights are recorded; imported ones have none."""


@dataclass(frozen=True)
class DocumentFacts:
    """Of a problem's document: hash and length in characters."""

    sha256: str
    characters: int


def token_files(workspace: Workspace, problem: str | None = None) -> list[Path]:
    """Published and pending token files, of one problem or of all."""
    folders = f"problem={problem or '*'}/model_id=*/condition=*"
    published = workspace.tokens.glob(f"{folders}/*.parquet")
    pending = [path for folder in workspace.pending.glob(folders) for path in pending_files(folder)]
    return [*sorted(published), *pending]


def check_documents(
    workspace: Workspace, problem: str
) -> tuple[dict[int, DocumentFacts] | None, list[Defect]]:
    """Facts of a problem's documents, by id; None with a defect when they can't be read."""
    import hashlib

    path = workspace.documents / f"problem={problem}" / "documents.parquet"

    def wrong(what: str) -> Defect:
        return Defect(path, problem, "", "", None, what, "refetch", "")

    try:
        rows = pq.read_table(path, partitioning=None).to_pylist()
        facts = {row["doc_id"]: DocumentFacts(row["sha256"], len(row["text"])) for row in rows}
        changed = [
            row["doc_id"]
            for row in rows
            if hashlib.sha256(row["text"].encode()).hexdigest() != row["sha256"]
        ]
    except FileNotFoundError:
        return None, [wrong("the table of documents is missing")]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        return None, [wrong(f"the table of documents can't be read ({first_line(error)})")]
    return facts, [wrong(f"the text of document {d} is not the one hashed") for d in changed]


def check_file(path: Path, documents: Mapping[int, DocumentFacts] | None) -> FileCheck:
    """Verify one token file; whatever is wrong comes back, nothing is raised."""
    return _examine(path, documents)[0]


def _examine(
    path: Path, documents: Mapping[int, DocumentFacts] | None
) -> tuple[FileCheck, pa.Table]:
    keys = partition_keys(path.parent)
    probe = keys[2]

    def wrong(what: str, mend: Mend, doc_id: int | None = None) -> Defect:
        return Defect(path, *keys, doc_id, what, mend, probe)

    nothing = TOKENS.empty_table()
    try:
        ledger = read_ledger(path)
        schema = pq.read_schema(path)
    except FileNotFoundError:
        return FileCheck(0, 0, ()), nothing  # merged by another process in the meantime
    except StorageError as error:
        reason = error.format_message().split(" (", 1)[-1].split("); move")[0]
        return FileCheck(0, 0, (wrong(f"can't be read: {reason}", "move"),)), nothing
    except (pa.ArrowException, OSError, ValueError) as error:
        return FileCheck(0, 0, (wrong(f"can't be read: {first_line(error)}", "move"),)), nothing
    probe = ledger.units[0].probe if ledger.units else probe
    if not schema.equals(TOKENS):
        return FileCheck(0, 0, (wrong("its columns are not those of `tokens`", "move"),)), nothing
    rows, defects = nothing, []
    try:
        rows, unreadable, untrue = _readable_rows(path)
        if unreadable:
            defects.append(wrong(f"unreadable row groups: {unreadable}", "rewrite"))
        elif untrue:
            defects.append(wrong(f"false statistics in the footer: {untrue}", "rewrite"))
    except (pa.ArrowException, OSError, ValueError) as error:
        return FileCheck(0, 0, (wrong(f"can't be read: {first_line(error)}", "move"),)), nothing
    columns = {name: rows[name].to_numpy() for name in rows.schema.names}
    if not defects:
        differs = _differs_in_duckdb(path, columns)
        if differs:
            defects.append(wrong(differs, "rewrite"))
    order = _order_defect(columns)
    if order:
        defects.append(wrong(order, "rewrite"))
    in_order = np.argsort(columns["doc_id"], kind="stable")
    sorted_ids = columns["doc_id"][in_order]
    known = np.array([unit.doc_id for unit in ledger.units], dtype=np.int32)
    for doc_id in np.setdiff1d(sorted_ids, known).tolist():
        defects.append(wrong("rows without a record in the ledger", "drop", doc_id))
    ids, counts = np.unique(known, return_counts=True)
    for doc_id in ids[counts > 1].tolist():
        defects.append(wrong("two records in the ledger", "drop", doc_id))
    for unit in ledger.units:
        start, stop = np.searchsorted(sorted_ids, [unit.doc_id, unit.doc_id + 1])
        chosen = in_order[start:stop]
        whole = bool(len(chosen)) and int(chosen[-1] - chosen[0]) == len(chosen) - 1
        mine = rows.slice(chosen[0], len(chosen)) if whole else rows.take(pa.array(chosen))
        document = None if documents is None else documents.get(unit.doc_id)
        if documents is not None and document is None:
            what = "its document is not in the problem's documents"
            defects.append(wrong(what, "superseded", unit.doc_id))
        elif document is not None and document.sha256 != unit.document_sha256:
            defects.append(wrong("its document has changed since", "superseded", unit.doc_id))
            document = None
        for what in _unit_defects(unit, mine, keys, document, unit in ledger.altered):
            defects.append(wrong(what, "drop", unit.doc_id))
    unrecorded = sum(
        unit.status == "done" and not unit.weights and unit.probe != IMPORTED
        for unit in ledger.units
    )
    return FileCheck(len(ledger.units), rows.num_rows, tuple(defects), unrecorded), rows


def _readable_rows(path: Path) -> tuple[pa.Table, list[int], list[str]]:
    """Rows of the readable row groups, numbers of the others, columns whose statistics lie."""
    tables, unreadable, untrue = [], [], []
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            try:
                table = file.read_row_group(group).cast(TOKENS)
            except (pa.ArrowException, OSError, ValueError):
                unreadable.append(group)
                continue
            tables.append(table)
            for index, name in enumerate(TOKENS.names):
                found = file.metadata.row_group(group).column(index).statistics
                if found is None or not found.has_min_max or not table.num_rows:
                    continue
                values = table[name].to_numpy()
                if (found.min, found.max, found.null_count or 0) != (
                    values.min(), values.max(), 0,
                ):  # fmt: skip
                    untrue.append(name)
    return pa.concat_tables([TOKENS.empty_table(), *tables]), unreadable, untrue


def _differs_in_duckdb(path: Path, columns: Columns) -> str:
    """The difference between DuckDB's and pyarrow's reading of a file; metrics are computed with
    DuckDB.
    """
    wanted = ", ".join(f"max({name}) as {name}" for name in columns)
    query = f"select count(*) as n, {wanted} from read_parquet(?, hive_partitioning = false)"
    try:
        with duckdb.connect() as connection:
            found = connection.execute(query, [glob.escape(str(path))]).fetchnumpy()
    except duckdb.Error as error:
        return f"DuckDB can't read it: {first_line(error)}"
    for name, values in columns.items():
        # NaN, which another program may leave, is the largest number of both
        if found["n"][0] != len(values) or (
            len(values) and not np.array_equal(found[name][0], values.max(), equal_nan=True)
        ):
            return f"DuckDB reads another {name}"
    return ""


def _order_defect(columns: Columns) -> str:
    """Whether (doc_id, segment, position) strictly increases from row to row."""
    steps = [np.diff(columns[name].astype(np.int64)) for name in ("doc_id", "segment", "position")]
    first = np.where(steps[0] != 0, steps[0], np.where(steps[1] != 0, steps[1], steps[2]))
    double, backwards = int((first == 0).sum()), int((first < 0).sum())
    if double:
        return f"{double} rows repeat the key of the row before (doc_id, segment, position)"
    return f"rows are not sorted at {backwards} places" if backwards else ""


def _unit_defects(
    unit: UnitRecord,
    rows: pa.Table,
    keys: tuple[str, str, str],
    document: DocumentFacts | None,
    altered: bool,
) -> Iterator[str]:
    if altered:
        yield "its record in the ledger is not the one written"
    if (unit.problem, unit.model_id, unit.condition) != keys:
        yield f"it belongs to {unit.problem}/{unit.model_id}/{unit.condition}"
    if rows.num_rows != unit.rows:
        yield f"{rows.num_rows:,} rows, the ledger has {unit.rows:,}"
    elif content_sha256(rows) != unit.content_sha256:
        yield "its content is not the one hashed in the ledger"
    columns = {name: rows[name].to_numpy() for name in rows.schema.names}
    for rule, broken in _broken_rules(columns, unit, document).items():
        if count := int(np.count_nonzero(broken)):
            yield f"{count:,} rows break {rule}"
    if unit.status == "done" and (gap := _gap(columns, unit)):
        yield gap


def _broken_rules(
    columns: Columns, unit: UnitRecord, document: DocumentFacts | None
) -> dict[str, np.ndarray[Any, Any]]:
    """Per rule, the rows that break it."""
    logprob, top, entropy = columns["logprob"], columns["top_logprob"], columns["entropy"]
    position, start, end = columns["position"], columns["char_start"], columns["char_end"]
    # another program need not have said more than the log-prob
    said = unit.probe != IMPORTED
    last = np.iinfo(np.int32).max if document is None else document.characters
    return {
        "logprob <= 0, finite": ~(np.isfinite(logprob) & (logprob <= 0)),
        "logprob <= top_logprob <= 0": ~((top >= logprob) & (top <= 0)) & (said | ~np.isnan(top)),
        "entropy >= 0, finite": (
            ~(np.isfinite(entropy) & (entropy >= 0)) & (said | ~np.isnan(entropy))
        ),
        "rank >= 1": columns["rank"] < 1,
        "token_id >= 0": columns["token_id"] < 0,
        "context_tokens >= 0": columns["context_tokens"] < 0,
        "context_tokens = position after the whole document": (
            (columns["context_tokens"] != position) & _kind(unit).whole_context
        ),
        "0 <= position < document_tokens": (position < 0) | (position >= unit.document_tokens),
        "0 <= char_start <= char_end <= characters of the document": (
            (start < 0) | (start > end) | (end > last)
        ),
    }


def _kind(unit: UnitRecord) -> ConditionKind:
    """Rules that the unit's probe guarantees; none if its plugin is not installed."""
    name = unit.condition_kind
    return condition_kinds().get(name, ConditionKind(name))


def _gap(columns: Columns, unit: UnitRecord) -> str:
    """Missing positions: inside a segment, and of a contiguous kind up to the last token."""
    position = columns["position"].astype(np.int64)
    same = np.diff(columns["segment"]) == 0
    kind = _kind(unit)
    if kind.contiguous:
        same[:] = True
        if len(position) and position[-1] != unit.document_tokens - 1:
            return f"positions end at {position[-1]}, not {unit.document_tokens - 1}"
    if kind.whole_context and (not len(position) or position[0] > 1):
        return "positions do not begin at 0 or 1"
    holes = int((np.diff(position)[same] != 1).sum())
    return f"positions have {holes} gaps" if holes else ""


def repair_file(
    workspace: Workspace, path: Path, documents: Mapping[int, DocumentFacts] | None
) -> str:
    """Repair one file so that the next extraction computes only what was lost.

    A file whose ledger can't be read, and a damaged pending unit, is renamed to `*.damaged`;
    from a published one the damaged units are dropped. The file is checked again under the
    lock, since another process may have replaced it.

    Returns:
        What was done, in a few words; empty when nothing was wrong any more.

    Raises:
        StorageError: the folder can't be written.
    """
    keys = partition_keys(path.parent)
    with publication_lock(workspace, *keys):
        checked, rows = _examine(path, documents)
        mends = {defect.mend for defect in checked.defects} - {"superseded"}
        if not mends:
            return ""
        is_pending = path != published_path(workspace, *keys)
        if is_pending or "move" in mends:
            return f"moved to {set_aside(path)}"
        bad = {defect.doc_id for defect in checked.defects if defect.mend == "drop"}
        kept = keep_units(path, rows, lambda unit: unit.doc_id not in bad)
        return f"kept {len(kept)} units, dropped {checked.units - len(kept)}"
