"""From a metric to a submission with its bundle, and back again.

`submit` refuses rather than explains later: incomplete coverage, a metric that may not be
submitted, a label in the lineage. `reproduce` rebuilds the scores from the warehouse.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.ranking.metric_table import MetricColumn, MetricTable, load_table
from analysis.submission.bundle import (
    BUNDLE_FILE,
    PAGE_FILE,
    SCHEMA,
    SUBMISSION_FILE,
    VERIFY_FILE,
    build_bundle,
    documents_sha256,
)
from analysis.submission.bundle_page import bundle_page
from analysis.submission.verifier import verify_problem
from warehouse.errors import StorageError, TokenmartError
from warehouse.metrics.lineage import Lineage, manifest_path, read_lineage
from warehouse.problem.spec import load_problem
from warehouse.sql.connection import connect_read_only
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem

RELATIVE_TOLERANCE = 1e-9
"""DuckDB's float sums vary in the last bits with the number of threads."""

_MAXIMUM_BYTES = 16 << 20


@dataclass(frozen=True)
class Order:
    """What the user asked to submit."""

    problem: str
    metric: str
    variant: str | None
    negate: bool
    unofficial: bool
    seed: int
    resamples: int


def submit(workspace: Workspace, order: Order, out: Path) -> dict[str, Any]:
    """Write submission, verifier output and bundle into the new folder `out`.

    Returns:
        The verifier's document.

    Raises:
        TokenmartError: the submission would be incomplete or against the rules.
        StorageError: `out` exists and isn't empty, or can't be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out}: already there; choose a new folder with --out")
    problem = load_problem(order.problem, workspace)
    table = load_table(problem, workspace)
    column = table.column(order.metric, order.variant)
    lineage = read_lineage(manifest_path(workspace), column.metric)
    _check_rules(column, lineage, order.unofficial)
    _check_coverage(problem, workspace, table, column, lineage)
    scores = _scores(table, column, order.negate)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise StorageError(f"{out}: can't be written ({error.strerror}); choose another") from error
    try:
        path = draft / SUBMISSION_FILE
        path.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
        verification = verify_problem(
            workspace, order.problem, path, "score", order.seed, order.resamples
        )
        verification["submission"]["path"] = SUBMISSION_FILE
        with connect_read_only(workspace) as connection:
            bundle = build_bundle(
                problem,
                workspace,
                connection,
                column,
                lineage,
                verification,
                order.negate,
                column.admissible and not lineage.labels,
            )
        _write_json(draft / VERIFY_FILE, verification)
        _write_json(draft / BUNDLE_FILE, bundle)
        page = bundle_page(bundle, verification)
        (draft / PAGE_FILE).write_text(page, encoding="utf-8")
        draft.chmod(0o755)
        if out.exists():
            out.rmdir()
        draft.replace(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return verification


@dataclass(frozen=True)
class Check:
    """One comparison of `reproduce`: what, whether it holds, and the finding."""

    what: str
    holds: bool
    finding: str
    decisive: bool = True


def reproduce(workspace: Workspace, folder: Path, problem_file: str | None = None) -> list[Check]:
    """Rebuild the scores of a bundle from the warehouse and compare.

    Raises:
        TokenmartError: the folder isn't a bundle, or the warehouse lacks the metric.
    """
    bundle = _read(folder / BUNDLE_FILE)
    try:
        if bundle["schema"] != SCHEMA:
            raise TokenmartError(
                f"{folder / BUNDLE_FILE}: schema is {bundle['schema']}, not {SCHEMA}"
            )
        metric, verification = bundle["metric"], bundle["verification"]
        order = Order(
            problem=problem_file or bundle["problem"],
            metric=metric["metric"],
            variant=metric["variant"],
            negate=metric["negated"],
            unofficial=not bundle["official"],
            seed=verification["seed"],
            resamples=verification["resamples"],
        )
        recorded_submission = bundle["submission"]["sha256"]
        files = bundle["files"]
    except (KeyError, TypeError) as error:
        raise TokenmartError(
            f"{folder / BUNDLE_FILE}: field {error} is missing or malformed; "
            "restore the bundle that `tokenmart submit` wrote"
        ) from error
    problem = load_problem(order.problem, workspace)
    table = load_table(problem, workspace)
    column = table.column(order.metric, order.variant)
    rebuilt = _scores(table, column, order.negate)
    path = folder / SUBMISSION_FILE
    result = verify_problem(workspace, order.problem, path, "score", order.seed, order.resamples)
    with connect_read_only(workspace) as connection:
        documents = documents_sha256(connection, problem.name)
    found = result["submission"]["sha256"]
    submitted = _read(path)
    return [
        _same("submission file", recorded_submission, found),
        _compare_scores(submitted, rebuilt),
        _compare_results(_read(folder / VERIFY_FILE), result),
        _same("target", files["target"].get("sha256"), result["target"].get("sha256")),
        _same("proxy documents", files["proxy"].get("documents_sha256"), documents),
        _same("code revision", bundle["code"]["revision"], result["code"]["revision"], False),
    ]


def _check_rules(column: MetricColumn, lineage: Lineage, unofficial: bool) -> None:
    if lineage.labels:
        raise TokenmartError(
            f"{column.name}: downstream scores are among its ancestors "
            f"({', '.join(lineage.labels)}); a metric may use only model and proxy text"
        )
    if not column.admissible and not unofficial:
        raise TokenmartError(
            f"{column.name}: needs more than the model and the proxy text, so it is not "
            "admissible; choose another metric, or pass --unofficial"
        )


def _check_coverage(
    problem: Problem,
    workspace: Workspace,
    table: MetricTable,
    column: MetricColumn,
    lineage: Lineage,
) -> None:
    """Every model needs a target, a value, and every document under the conditions it rests on."""
    remedy = f"run `tokenmart extract --problem {problem.name}` and `tokenmart dbt build`"
    if table.without_target:
        raise TokenmartError(
            f"{problem.name}: no target score for {', '.join(table.without_target)}; "
            f"run `tokenmart recall --problem {problem.name}` or place the target file"
        )
    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, condition, condition_kind, documents, documents_done, failure"
            " from coverage where problem = ? order by model_id, condition",
            [problem.name],
        ).fetchall()
    probe = column.variant.partition("@")[2]
    needed = [
        row
        for row in rows
        if row[2] == "full"
        or (lineage.needs != "full" and probe and f"{row[1]}_".startswith(f"{probe}_"))
    ]
    seen = {row[0] for row in needed}
    gaps = [f"{m.full_id} (nothing)" for m in problem.models if m.model_id not in seen]
    gaps += [
        f"{model} under {condition} ({done} of {documents} documents"
        + (f"; {failure})" if failure else ")")
        for model, condition, _, documents, done, failure in needed
        if done < documents or documents == 0
    ]
    if gaps:
        raise TokenmartError(f"{column.name}: coverage is incomplete: {_some(gaps)}; {remedy}")
    absent = [
        model.full_id
        for model, there in zip(table.models, column.present, strict=True)
        if not there
    ]
    if absent:
        raise TokenmartError(f"{column.name}: no value for {_some(absent)}; {remedy}")


def _scores(table: MetricTable, column: MetricColumn, negate: bool) -> dict[str, float]:
    sign = -1.0 if negate else 1.0
    return {
        model.full_id: sign * float(value)
        for model, value in zip(table.models, column.values, strict=True)
    }


def _compare_scores(submitted: Any, rebuilt: dict[str, float]) -> Check:
    moved = [
        f"{model} {submitted.get(model)!r} → {value!r}"
        for model, value in rebuilt.items()
        if not math.isclose(submitted.get(model, math.nan), value, rel_tol=RELATIVE_TOLERANCE)
    ]
    finding = _some(moved) if moved else f"{len(rebuilt)} equal to {RELATIVE_TOLERANCE:g} relative"
    return Check("scores from the warehouse", not moved, finding)


def _compare_results(recorded: Any, result: dict[str, Any]) -> Check:
    pairs = {
        name: (recorded[name]["value"], result[name]["value"])
        for name in ("spearman", "pearson", "skipped_spearman")
    }
    moved = [
        f"{name} {before} → {after}"
        for name, (before, after) in pairs.items()
        if before != after
        and (before is None or after is None or not math.isclose(before, after, abs_tol=1e-9))
    ]
    finding = _some(moved) or f"Spearman {result['spearman']['value']}, as recorded"
    return Check("verifier output", not moved, finding)


def _same(what: str, recorded: Any, found: Any, decisive: bool = True) -> Check:
    holds = recorded == found
    finding = f"{found}" if holds else f"recorded {recorded}, found {found}"
    return Check(what, holds, finding, decisive)


def _read(path: Path) -> Any:
    try:
        return read_json(path, _MAXIMUM_BYTES).content
    except StrictJsonError as error:
        raise TokenmartError(
            f"{path}: {error}; point at a folder that `tokenmart submit` wrote"
        ) from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _some(items: list[str], most: int = 6) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
