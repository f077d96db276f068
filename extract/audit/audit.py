"""Auditing a model: its sample recomputed, compared, explained where it differs, and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from extract.audit.rows import (
    Sample,
    differing,
    recomputed,
    sample_of,
    sampled_places,
    tolerance,
)
from extract.models.loading import Loading, load_model
from extract.planning.cost import BYTES
from extract.planning.documents import documents_of
from extract.planning.plan import ModelPlan
from extract.unit_rows import running_code
from warehouse.probes.request import Request
from warehouse.problem.tables import ensure_documents
from warehouse.progress import Progress, no_progress
from warehouse.sql.connection import connect_to_parquet
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import AUDITS, table_path

NOISY = ("float16", "bfloat16")
"""Number formats whose rounding may explain a difference, the finer first."""

_ROWS = """
    with numbered as (
        select *, row_number() over (order by doc_id, segment, position) - 1 as place from tokens
        where problem = ? and model_id = ? and condition = ?
    )
    select numbered.*, document_tokens
    from numbered
    inner join (select unnest(?::bigint[]) as place) using (place)
    inner join units using (problem, model_id, condition, doc_id)
    order by place
"""


def audit_samples(
    plan: ModelPlan, samples: Sequence[Sample], seed: int, progress: Progress = no_progress
) -> list[dict[str, Any]]:
    """Recompute a model's samples in float32: a row of `AUDITS` for each, in their order.

    Raises:
        TokenmartError: the model can't be loaded, or does something unknown after its head.
    """
    from extract.audit.causes import name_cause

    loading = Loading(plan.spec, plan.checkpoint, plan.selection.device, "float32")
    text = max((each.ids for sample in samples for each in sample.forwards), key=len)
    model = load_model(loading)
    owns = [recomputed(model, sample, progress) for sample in samples]
    accepted = {"float32": tolerance(model, text)}
    for name in {sample.dtype for sample in samples} - {"float32"}:
        del model
        model = load_model(replace(loading, dtype=name))
        accepted[name] = tolerance(model, text)
    wrong = [
        differing(sample, own, *accepted[sample.dtype])
        for sample, own in zip(samples, owns, strict=True)
    ]
    noise: dict[str, tuple[float, float]] = {}
    if any(each.any() for each in wrong):
        for name in (*NOISY, "float32"):  # the last one stays
            del model
            model = load_model(replace(loading, dtype=name))
            noise[name] = tolerance(model, text)
    found = []
    for sample, own, is_other in zip(samples, owns, wrong, strict=True):
        worst = accepted[sample.dtype][1]
        cause = ""
        if is_other.any():
            cause = name_cause(model, sample, own, is_other, worst, noise, plan.tokenizer)
        found.append(_row(sample, own) | {"differing": int(is_other.sum()), "cause": cause}
                     | {"tolerance": worst, "seed": seed})  # fmt: skip
    return found


def _row(sample: Sample, own: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of `AUDITS` has of a sample; null where the store has no such column."""
    off = {name: np.abs(sample.stored[name] - own[name]) for name in sample.stored}
    given = {name: values for name, values in off.items() if not np.isnan(values).any()}
    found: dict[str, Any] = {"condition": sample.condition, "units_sha256": sample.units_sha256}
    found |= {f"largest_{name}": float(values.max()) for name, values in given.items()}
    found |= {f"mean_{name}": float(values.mean()) for name, values in given.items()}
    return found | {
        "sampled": len(sample.contexts),
        "other_ranks": int((given["rank"] > 0).sum()) if "rank" in given else None,
        "audited_at": datetime.now(timezone.utc),
        "code_revision": running_code()[0],
    }


def new_rows_sample(
    plan: ModelPlan,
    condition: str,
    rows: pa.Table,
    requests: Mapping[tuple[int, int], Request],
    tokens: int,
) -> Sample:
    """A sample, with seed 0, of a condition's rows in the order of `tokens`, not yet stored."""
    name = f"{plan.spec.model_id} {condition}"
    places = sampled_places(rows.num_rows, min(tokens, rows.num_rows), 0, name)
    return sample_of(condition, rows.take(places), requests, published_dtype(plan))


def published_dtype(plan: ModelPlan) -> str:
    """The number format of a model's configuration, in which other programs run it."""
    name = str(plan.config.get_text_config().dtype).removeprefix("torch.")
    return name if name in BYTES else "float32"


def stored_samples(plan: ModelPlan, states: Sequence[Mapping[str, Any]], seed: int) -> list[Sample]:
    """Samples of stored rows, with the inputs that the text and the condition give.

    Args:
        states: of conditions: rows of `audit_states` with `planned`, the rows to sample.

    Raises:
        TokenmartError: a text or probe has changed (`other-tokens`).
    """
    selection = plan.selection
    conditions = {condition.name: condition for condition in selection.conditions}
    table = ensure_documents(selection.problem, selection.workspace)
    documents = documents_of(table, None, selection.conditions)
    samples = []
    with connect_to_parquet(selection.workspace) as connection:
        for state in states:
            condition = conditions[state["condition"]]
            keys = [selection.problem.name, plan.spec.model_id, condition.name]
            places = sampled_places(state["rows"], state["planned"], seed, " ".join(keys[1:]))
            rows = connection.sql(_ROWS, params=[*keys, places.tolist()]).to_arrow_table()
            lengths = dict(zip(*rows.select(["doc_id", "document_tokens"]), strict=True))
            requests: dict[tuple[int, int], Request] = {}
            for doc_id, length in sorted((k.as_py(), n.as_py()) for k, n in lengths.items()):
                tokens = plan.tokenizer.encode(documents[doc_id].text).cut(length)
                built = condition.build(plan.reading(documents[doc_id], tokens, (condition,)))
                requests |= {(doc_id, request.segment): request for request in built}
            dtype = state["unit_dtype"] or published_dtype(plan)
            sha256 = state["present_sha256"]
            samples.append(sample_of(condition.name, rows, requests, dtype, sha256))
    return samples


def store_audits(plan: ModelPlan, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store audits of conditions of a model; those of its other conditions stay.

    Raises:
        StorageError: the folder can't be written.
    """
    keys = plan.selection.problem.name, plan.spec.model_id
    path = table_path(plan.selection.workspace, "audits", *keys)
    new = {row["condition"]: row for row in rows}
    old = read_table(path, schema=AUDITS).to_pylist() if path.is_file() and rows else []
    merged = {row["condition"]: row for row in old} | new
    if merged:
        table = pa.Table.from_pylist([merged[name] for name in sorted(merged)], schema=AUDITS)
        write_table(path, table)


def present_sha256(plan: ModelPlan, condition: str) -> str:
    """The hash of a condition's units as they are stored now."""
    keys = [plan.selection.problem.name, plan.spec.model_id, condition]
    where = "problem = ? and model_id = ? and condition = ?"
    with connect_to_parquet(plan.selection.workspace) as connection:
        query = f"select present_sha256 from audit_states where {where}"
        return str(connection.execute(query, keys).fetchall()[0][0])
