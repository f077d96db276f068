"""The reproducibility bundle: everything a reader needs to redo a submission, as data.

Filled from the ledger (`units`), the model and document tables, the lock records and dbt's
lineage graph. `bundle_page` shows it as one page of Markdown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.ranking.loading import records
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.signature import signature
from analysis.statistics.correlations import number, without_rounding
from analysis.statistics.decisions import decide
from analysis.submission.official import why_unofficial
from analysis.templates import environment
from warehouse.metrics.manifest import Lineage
from warehouse.metrics.tested_metrics import tested_besides, tested_record
from warehouse.sql.audits import audit_line
from warehouse.store.provenance import code_revision, versions

if TYPE_CHECKING:
    import duckdb

    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem

SCHEMA = "tokenmart/bundle/2"
SUBMISSION_FILE = "submission.json"
VERIFY_FILE = "verify.json"
BUNDLE_FILE = "bundle.json"
PAGE_FILE = "README.md"
PACKAGES = (
    "tokenmart", "numpy", "scipy", "scikit-learn", "duckdb", "dbt-core", "dbt-duckdb",
    "pyarrow", "torch", "transformers", "accelerate",
)  # fmt: skip
_METRIC = (
    "metric", "variant", "family", "parameters", "direction", "formula", "admissible",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What a request names: a problem, and a metric of it with its lineage."""

    workspace: Workspace
    problem: Problem
    table: MetricTable
    column: MetricColumn
    lineage: Lineage

    @property
    def negated(self) -> bool:
        """Whether lower values are better: the verifier reads every score as higher is better."""
        return self.column.direction == "lower"


def build_bundle(
    subject: Subject,
    connection: duckdb.DuckDBPyConnection,
    verification: dict[str, Any],
    claims: dict[str, Any],
) -> dict[str, Any]:
    """Collect the bundle; `connection` is to the marts, `claims` are those of `claims_record`."""
    problem, column, lineage = subject.problem, subject.column, subject.lineage
    units, code = _units(connection, problem), code_revision()
    unofficial = why_unofficial(subject.workspace, problem, column, lineage, units, code)
    return {
        "schema": SCHEMA,
        "problem": problem.name,
        "official": not unofficial,
        "unofficial_because": unofficial,
        "metric": {name: getattr(column, name) for name in _METRIC} | {"negated": subject.negated},
        "claims": claims,
        "signature": signature(subject.table, column),
        "state": {"sha256": subject.table.state.current.sha256}
        | {"parts": dict(sorted(subject.table.state.current.parts.items()))},
        "audit": audit_line(subject.workspace, problem.name) or "Not audited.",
        "code": code,
        "extraction_code": sorted(
            {f"{unit['code_revision']}{'+' if unit['code_dirty'] else ''}" for unit in units}
        ),
        "submission": {"file": SUBMISSION_FILE, "sha256": verification["submission"]["sha256"]},
        "verification": {
            "file": VERIFY_FILE,
            "seed": verification["seed"],
            "resamples": verification["resamples"],
        },
        "seeds": {
            "verification": verification["seed"],
            "extraction": sorted({unit["seed"] for unit in units}),
            "conditions": sorted(
                {f"{unit['condition']}: {unit['probe_params']}" for unit in units}
            ),
        },
        "compute": compute_budget(units),
        "models": _models(connection, problem, units),
        "files": {
            "proxy": _proxy(problem, subject.workspace, connection),
            "target": verification["target"],
        },
        "versions": versions(PACKAGES)
        | {
            f"{name} (extraction)": ", ".join(sorted({unit[f"{name}_version"] for unit in units}))
            for name in ("torch", "transformers", "tokenmart")
        },
        "lineage": {
            "node": lineage.node,
            "ancestors": list(lineage.ancestors),
            "foreign": list(lineage.foreign),
        },
    }


def claims_record(subject: Subject, as_of: str) -> dict[str, Any]:
    """Metrics tested until `as_of`, and what a submission may claim among them.

    Without `as_of`, until now, with all metrics of the present build: they are recorded once the
    submission is written.

    p_adjusted is simultaneous for all metrics tested and widened by the design effect of
    families and series; p_adjusted_within_families is the same of the ranks less family means.
    """
    table, column = subject.table, subject.column
    moment = as_of or datetime.now(timezone.utc).isoformat(timespec="microseconds")
    name = column.metric, column.variant
    present = [record for record in table.present if (record.metric, record.variant) == name]
    now = () if as_of else table.present
    tested = tested_record(subject.workspace, table.problem, table.known_target)
    others = [
        entry
        for entry in tested_besides(tested, present, now)
        if as_of == "" or entry.first_seen <= as_of
    ]
    lower = {(c.metric, c.variant) for c in table.everything if c.direction == "lower"}
    rows = [column.oriented]
    for entry in others:
        values = [entry.values.get(model.model_id, np.nan) for model in table.models]
        # an idea may have been tested in both directions
        direction = entry.direction or ("lower" if (entry.metric, entry.variant) in lower else "")
        sign = -1.0 if direction == "lower" else 1.0
        rows.append(without_rounding(sign * np.array(values)))
    decisions = decide(np.stack(rows), table.target, table.families, table.groupings)
    return {
        "as_of": moment,
        "tested": len(rows),
        "verdict": decisions.verdict(0),
        "p_adjusted": number(float(decisions.overall.p[0])),
        "p_adjusted_within_families": number(float(decisions.within.p[0])),
        "spearman_ci95_after_choice": decisions.overall.interval(0).record,
        "families": len(set(table.families)),
        "series_across_families": len(set(table.series_across_families)),
        "preregistration": _preregistration(subject, moment),
    }


def _preregistration(subject: Subject, as_of: str) -> dict[str, Any] | None:
    """The oldest entry that names this metric, and what has changed since; None without one.

    An entry that a later one replaced comes last.
    """
    for registered in sorted(subject.table.registered, key=lambda registered: registered.replaced):
        if registered.metric.name == subject.column.name and registered.entry.recorded_at <= as_of:
            return {
                "number": registered.entry.number,
                "sha256": registered.entry.sha256,
                "recorded_at": registered.entry.recorded_at,
                "before_labels": registered.entry.before_labels,
                "metrics": len(registered.entry.metrics),
                "direction": registered.metric.direction,
                "changed_since": list(registered.changed),
                "not_covered": list(registered.entry.not_covered),
            }
    return None


def compute_budget(units: list[dict[str, Any]]) -> dict[str, Any]:
    """Tokens, wall-clock and peak memory: in all, per model and per condition.

    Args:
        units: ledger rows; failed ones cost too.
    """

    def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "units": len(rows),
            "failed_units": sum(row["status"] != "done" for row in rows),
            "tokens_processed": sum(row["tokens_processed"] for row in rows),
            "tokens_scored": sum(row["tokens_scored"] for row in rows),
            "seconds": round(sum(row["seconds"] for row in rows), 3),
            "peak_bytes": max((row["peak_bytes"] for row in rows), default=0),
            "devices": sorted({row["device"] for row in rows}),
            "dtypes": sorted({row["dtype"] for row in rows}),
        }

    def grouped(field: str) -> dict[str, Any]:
        names = sorted({row[field] for row in units})
        return {name: total([row for row in units if row[field] == name]) for name in names}

    return {
        "total": total(units),
        "models": grouped("model_id"),
        "conditions": grouped("condition"),
    }


def bundle_page(bundle: dict[str, Any], verification: dict[str, Any]) -> str:
    """One page for a reader: what was submitted, how it scored, what it took, how to redo it."""
    pages = environment("analysis.submission", escape_html=False)
    pages.filters |= {"line": _line, "cell": _cell}
    return pages.get_template("bundle.md.j2").render(bundle=bundle, verification=verification)


def _line(value: object) -> str:
    """A name as Markdown that breaks neither its line nor a code span around it."""
    return " ".join(str(value).split()).replace("`", "'")


def _cell(value: object) -> str:
    """A name as Markdown that doesn't break its table."""
    return _line(value).replace("|", "\\|")


def _units(connection: duckdb.DuckDBPyConnection, problem: Problem) -> list[dict[str, Any]]:
    return records(
        connection,
        "select * from units where problem = ? and model_id in ?"
        " order by model_id, condition, doc_id",
        [problem.name, [model.model_id for model in problem.ranked_models]],
    )


def _models(
    connection: duckdb.DuckDBPyConnection, problem: Problem, units: list[dict[str, Any]]
) -> dict[str, Any]:
    rows = records(
        connection,
        "select model_id, revision, tokenizer_sha256, interventions from models where problem = ?",
        [problem.name],
    )
    known = {row["model_id"]: row for row in rows}
    return {
        model.full_id: known[model.model_id]
        | {"dtypes": sorted({u["dtype"] for u in units if u["model_id"] == model.model_id})}
        for model in problem.ranked_models
        if model.model_id in known
    }


def _proxy(
    problem: Problem, workspace: Workspace, connection: duckdb.DuckDBPyConnection
) -> dict[str, Any]:
    """Identity of the text: the file's hash, and one over the documents used."""
    rows = connection.execute(
        "select doc_id, sha256 from documents where problem = ? order by doc_id", [problem.name]
    ).fetchall()
    lines = "".join(f"{doc_id} {sha256}\n" for doc_id, sha256 in rows)
    folders = problem.folders(workspace)
    return {
        "source": problem.documents.required_file(folders).name,
        "sha256": problem.documents.source_sha256(folders),
        "documents_sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }
