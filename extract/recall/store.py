"""Stored answers of a model: path, fingerprint, and number of contexts."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from extract.backends.backend import DEFAULT
from extract.planning.plan import ModelPlan, describe_corrections, describe_interventions
from extract.recall.contexts import RECALL_VERSION
from extract.recall.words import ADJECTIVES, LETTERS, LISTED, NOUNS
from extract.scoring.numerics import ENGINE_VERSION
from warehouse.paths import Workspace
from warehouse.problem.spec import DEFAULT_TASKS, Problem, RecallTarget
from warehouse.remote import footer, source
from warehouse.store.ledger import fingerprint
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM

FINGERPRINT_KEY = b"tokenmart.fingerprint"
WEIGHTS_KEY = b"tokenmart.weights"
"""The backend's record of how weights were loaded; earlier versions stored none."""
SAME_KEY = b"tokenmart.recall_apart_from_contexts"
"""The fingerprint with the number of contexts left out: such files can be added to."""
USABLE_CONTEXTS = 9
"""Contexts from which on a score's standard error is itself known to a quarter."""


def standard_error_note(contexts: int) -> str:
    """A note that standard errors of few contexts are imprecise; empty if there are enough.

    A standard error from C independent contexts has itself a relative error of about
    1 / sqrt(2 (C - 1)), as that of any standard deviation.
    """
    if contexts >= USABLE_CONTEXTS:
        return ""
    known = (
        f"known to about ±{1 / math.sqrt(2 * (contexts - 1)):.0%} only"
        if contexts > 1
        else "unknown"
    )
    return (
        f"{contexts} contexts a model: the scores' standard errors, and the noise ceiling made of "
        f"them, are {known}; `tokenmart recall --contexts {USABLE_CONTEXTS}` makes that ±25%"
    )


def target_fingerprint(target: RecallTarget, plan: ModelPlan, backend: str) -> str:
    """Everything the measured rows depend on."""
    return fingerprint(_parts(target, plan, backend, target.measured))


def extendable_fingerprint(target: RecallTarget, plan: ModelPlan, backend: str) -> str:
    """The same but for the number of contexts, the first of which are always alike."""
    measured = {key: value for key, value in target.measured.items() if key != "contexts"}
    return fingerprint(_parts(target, plan, backend, measured))


def _parts(
    target: RecallTarget, plan: ModelPlan, backend: str, measured: dict[str, Any]
) -> dict[str, Any]:
    words = ADJECTIVES + NOUNS
    if target.tasks != DEFAULT_TASKS:
        words += (*LISTED, LETTERS)
    return {
        "revision": plan.checkpoint.revision,
        "interventions": describe_interventions(plan.spec),
        **describe_corrections(plan.spec),
        "tokenizer": plan.tokenizer_sha256,
        "dtype": plan.dtype,
        "backend": backend,
        "engine": ENGINE_VERSION,
        "recall": RECALL_VERSION,
        "target": measured,
        "names": hashlib.sha256(" ".join(words).encode()).hexdigest(),
    }


def items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The measured items of one model."""
    return (
        workspace.downstream / f"problem={problem.name}" / f"model_id={model_id}" / "items.parquet"
    )


def recall_items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The questions of those items."""
    folder = f"problem={problem.name}"
    return workspace.store / "recall_items" / folder / f"model_id={model_id}" / "items.parquet"


def is_measured(path: Path, wanted: str) -> bool:
    """Whether the file contains items with this fingerprint."""
    if not path.is_file():
        return False
    metadata = pq.read_schema(footer(path)).metadata or {}
    return bool(metadata.get(FINGERPRINT_KEY, b"").decode() == wanted)


def stored_answers(path: Path, extendable: str) -> pa.Table:
    """Answers that are there already and can be added to; none of another target or model."""
    if path.is_file():
        table = pq.ParquetFile(source(path)).read()
        if (table.schema.metadata or {}).get(SAME_KEY, b"").decode() == extendable:
            return table
    return DOWNSTREAM.empty_table()


def lacks_record(path: Path, backend: str) -> bool:
    """Whether there are answers without a record that the model had all its tensors."""
    if backend != DEFAULT or not path.is_file():
        return False
    return WEIGHTS_KEY not in (pq.read_schema(footer(path)).metadata or {})


def measured_contexts(answers: pa.Table) -> int:
    """From how many contexts answers are."""
    return len(answers["cluster"].unique())


def store_answers(
    path: Path, answers: pa.Table, fingerprint_: str, extendable: str, weights: str
) -> None:
    """Write measured items atomically, with their fingerprints and the record of the weights."""
    marks = {
        FINGERPRINT_KEY: fingerprint_.encode(),
        SAME_KEY: extendable.encode(),
        WEIGHTS_KEY: weights.encode(),
    }
    write_table(path, answers.cast(DOWNSTREAM).replace_schema_metadata(marks))
