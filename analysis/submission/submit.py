"""From a metric to a submission with its bundle.

Refused are incomplete coverage, a metric that may not be submitted, and a lineage that is not SQL
over the store.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.compute as pc
from pydantic import Field
from pydantic.dataclasses import dataclass

from analysis.ranking.loading import load_table, remedy_without_target
from analysis.statistics.correlations import without_rounding
from analysis.submission.bundle import (
    BUNDLE_FILE,
    PAGE_FILE,
    SUBMISSION_FILE,
    VERIFY_FILE,
    Subject,
    build_bundle,
    bundle_page,
    claims_record,
)
from analysis.submission.verifier import verify_problem
from warehouse.errors import StorageError, TokenmartError
from warehouse.files import refuse_protected, storage_errors
from warehouse.metrics.manifest import manifest_path, read_lineage
from warehouse.metrics.tested_metrics import record_metrics
from warehouse.problem.needed import needed_by_file
from warehouse.problem.spec import load_problem
from warehouse.problem.unit_states import stored_texts, unit_states
from warehouse.sql.connection import connect_read_only
from warehouse.terminal import listed

if TYPE_CHECKING:
    from warehouse.paths import Workspace

NAMED = 6
"""Number of things that a message names; the others are counted."""


@dataclass(frozen=True, config={"strict": True})
class SubmissionRequest:
    """The user's request.

    metric: METRIC/VARIANT, or a METRIC that has one.
    as_of: count metrics tested until then, ISO 8601 in UTC; empty for now.
    """

    problem: str
    metric: str
    unofficial: bool
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    resamples: Annotated[int, Field(ge=100, le=1_000_000)]
    as_of: str = ""


def write_submission(workspace: Workspace, request: SubmissionRequest, out: Path) -> dict[str, Any]:
    """Write submission, verifier output and bundle into the new folder `out`.

    All metrics of the problem are recorded as tested; none where it is refused.

    Returns:
        The verifier's document.

    Raises:
        TokenmartError: the submission would be incomplete or against the rules.
        StorageError: `out` exists and isn't empty, or can't be written.
    """
    refuse_protected(out, workspace)
    with storage_errors(out):
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if taken:
        raise StorageError(f"{out}: already there; choose a new folder with --out")
    subject = find_subject(workspace, request)
    for code, where, reason in _refusals(subject, request):
        raise TokenmartError(f"{subject.column.name}: {reason}", code=code, where=where)
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".submission.") as folder:
            draft = Path(folder) / "draft"
            draft.mkdir()
            verification, bundle = _fill(draft, subject, request)
            table, moment = subject.table, bundle["claims"]["as_of"]
            record_metrics(workspace, table.problem, table.present, table.known_target, moment)
            if out.exists():
                out.rmdir()
            draft.replace(out)
    return verification


def find_subject(workspace: Workspace, request: SubmissionRequest) -> Subject:
    """Load what is submitted.

    Raises:
        TokenmartError: the metric or the target is not in the warehouse.
    """
    problem = load_problem(request.problem, workspace)
    table = load_table(problem, workspace)
    column = table.column(request.metric)
    lineage = read_lineage(manifest_path(workspace), column.metric)
    return Subject(workspace, problem, table, column, lineage)


def build_submission(
    path: Path, subject: Subject, request: SubmissionRequest
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The verifier's document of the submission file at `path`, and the bundle.

    Raises:
        BadSubmissionError: the submission file breaks the contract.
    """
    verification = verify_problem(
        subject.workspace, request.problem, path, "score", request.seed, request.resamples
    )
    verification["submission"]["path"] = SUBMISSION_FILE
    claims = claims_record(subject, request.as_of)
    with connect_read_only(subject.workspace) as connection:
        bundle = build_bundle(subject, connection, verification, claims)
    return verification, bundle


def _fill(
    folder: Path, subject: Subject, request: SubmissionRequest
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write every file of the submission into a folder; see `build_submission`."""
    path = folder / SUBMISSION_FILE
    _write_json(path, scores_of(subject))
    verification, bundle = build_submission(path, subject, request)
    _write_json(folder / VERIFY_FILE, verification)
    _write_json(folder / BUNDLE_FILE, bundle)
    (folder / PAGE_FILE).write_text(bundle_page(bundle, verification), encoding="utf-8")
    return verification, bundle


def _refusals(subject: Subject, request: SubmissionRequest) -> Iterator[tuple[str, str, str]]:
    """Code, place and reason of what breaks a rule.

    Every model needs a target, a value, and every document under the conditions it rests on, as
    the problem file has them now.
    """
    problem, table, column = subject.problem, subject.table, subject.column
    if table.state.built is None:
        yield (
            "unrecorded-build",
            problem.name,
            f"the database does not record what it was built from; run `{problem.build}`",
        )
    if changed := table.state.changed:
        yield (
            "stale-database",
            changed[0],
            f"changed after the database was built: {listed(changed, NAMED)}; run "
            f"`{problem.build}`",
        )
    if foreign := subject.lineage.foreign:
        yield (
            "foreign-lineage",
            foreign[0],
            f"{listed(foreign, 3)} may have numbers from anywhere; a metric may use only model and "
            "proxy text, in SQL over the store",
        )
    if not column.admissible and not request.unofficial:
        yield "not-admissible", column.name, "not admissible: needs a second model (--unofficial)"
    if lacking := table.without_target:
        remedy = remedy_without_target(problem)
        yield "no-target", lacking[0], f"no target score for {', '.join(lacking)}; {remedy}"
    with connect_read_only(subject.workspace) as connection:
        rows = connection.execute(
            "select model_id, condition, condition_kind, documents, documents_done"
            " from coverage where problem = ? and model_id in ? order by model_id, condition",
            [problem.name, [model.model_id for model in problem.ranked_models]],
        ).fetchall()
    context = (subject.lineage.needs, column.variant.partition("@")[2])
    behind = {name for each in problem.contexts if each[:2] == context for name in each.conditions}
    needed = [row for row in rows if row[2] == "full" or row[1] in behind]
    seen = {row[0] for row in needed}
    gaps = [f"{m.full_id} (nothing)" for m in problem.ranked_models if m.model_id not in seen]
    gaps += [
        f"{model} under {condition} ({done} of {documents} documents)"
        for model, condition, _, documents, done in needed
        if done < documents or documents == 0
    ]
    remedy = f"run `tokenmart extract --problem {problem.argument}` and `tokenmart dbt build`"
    if gaps:
        yield "gaps", gaps[0], f"coverage is incomplete: {listed(gaps, NAMED)}; {remedy}"
    conditions = {row[1] for row in needed}
    ranked = needed_by_file(problem, subject.workspace)
    ranked = ranked.filter(pc.field("is_ranked"))
    old = [
        f"{unit.model_id} under {unit.condition} (document {unit.doc_id}: {unit.why})"
        for unit in unit_states(subject.workspace, ranked, stored_texts(problem, subject.workspace))
        if unit.state == "outdated" and unit.condition in conditions
    ]
    if old:
        yield "outdated-units", old[0], f"not of this problem file: {listed(old, NAMED)}; {remedy}"
    absent = list(compress((model.full_id for model in table.models), ~column.present))
    if absent:
        yield "missing-models", absent[0], f"no value for {listed(absent, NAMED)}; {remedy}"


def scores_of(subject: Subject) -> dict[str, float]:
    """Model → submitted score, higher is better, in the problem's order.

    Without the rounding of sums, as `correlate` ranks them: the verifier ranks every difference.
    """
    values = -subject.column.values if subject.negated else subject.column.values
    full_ids = (model.full_id for model in subject.table.models)
    return dict(zip(full_ids, without_rounding(values).tolist(), strict=True))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
