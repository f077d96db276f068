"""A scored unit and its record in the ledger."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from extract.backends.backend import Scorer
from extract.observe import running_code
from extract.planning.plan import ModelPlan, Selection, Task
from extract.scored import Scored
from extract.scoring.numerics import ENGINE_VERSION
from extract.tokenization import TokenizedDocument
from warehouse.probes.request import Condition, Request
from warehouse.store.ledger import UnitRecord


@dataclass(frozen=True)
class ScoredUnit:
    """One condition of one document, scored or failed, not yet stored."""

    condition: Condition
    requests: Sequence[Request]
    results: Sequence[Scored]
    reason: str
    tokens: int
    seconds: float
    peak_bytes: int


def unit_record(
    problem: str,
    selection: Selection,
    plan: ModelPlan,
    task: Task,
    scored: ScoredUnit,
    rows: int,
    scorer: Scorer | None,
    tokenized: TokenizedDocument | None,
) -> UnitRecord:
    """The record of a unit; without a tokenised document it failed before it was tokenised.

    Its content hash is set where its rows are stored.
    """
    commit, dirty = running_code()
    condition = scored.condition
    return UnitRecord(
        problem=problem,
        model_id=plan.spec.model_id,
        condition=condition.name,
        condition_kind=condition.kind.name,
        probe=condition.probe,
        probe_params=json.dumps(condition.params, sort_keys=True),
        doc_id=task.document.doc_id,
        fingerprint=task.fingerprints[condition.name],
        status="failed" if scored.reason else "done",
        reason=scored.reason,
        rows=rows,
        tokens_processed=scored.tokens,
        tokens_scored=rows,
        seconds=round(scored.seconds, 4),
        peak_bytes=scored.peak_bytes,
        device=selection.device,
        dtype=plan.dtype,
        backend=selection.backend,
        attention=scorer.attention if scorer else "",
        prefixes=scorer.prefixes if scorer else "",
        engine=ENGINE_VERSION,
        document_sha256=task.document.sha256,
        document_tokens=len(tokenized.ids) if tokenized else 0,
        document_tokens_total=tokenized.total_tokens if tokenized else 0,
        torch_version=version("torch"),
        transformers_version=version("transformers"),
        tokenmart_version=version("tokenmart"),
        code_revision=commit,
        code_dirty=dirty,
        seed=condition.seed,
        finished_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        content_sha256="",
        over_limit_tokens=tokenized.over_limit_tokens if tokenized else 0,
        weights=scorer.weights if scorer else "",
    )
