"""Auditing a model: its sample recomputed, compared, explained where it differs, and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from extract.audit.rows import (
    SHORTEST,
    Floats,
    Sample,
    differing,
    forwards_of,
    recomputed,
    sampled_places,
    stored_columns,
    tolerance,
)
from extract.devices import available_memory
from extract.models.loading import Loading, load_model
from extract.planning.cost import BYTES, planned_memory
from extract.planning.documents import documents_of
from extract.planning.plan import ModelPlan
from extract.scoring.architectures import depends_on_length
from extract.unit_rows import running_code
from warehouse.probes.request import Ids, Request
from warehouse.problem.tables import ensure_documents
from warehouse.progress import Progress, no_progress
from warehouse.sql.connection import connect_to_parquet
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import AUDITS, table_path

NOISY = ("float16", "bfloat16")
"""Number formats whose rounding may explain a difference, the finer first."""

_ROWS = """
    with numbered as (
        select
            *,
            row_number() over (order by doc_id, segment, position) - 1 as place,
            row_number() over (order by context_tokens, doc_id, segment) <= $shortest as is_short
        from tokens
        where problem = $problem and model_id = $model_id and condition = $condition
    )
    select numbered.*, document_tokens, is_sampled
    from numbered
    inner join units using (problem, model_id, condition, doc_id)
    left join (select unnest($places::bigint[]) as place, true as is_sampled) using (place)
    where is_sampled or is_short
    order by place
"""


def audit_samples(
    plan: ModelPlan, samples: Sequence[Sample], seed: int, progress: Progress = no_progress
) -> list[dict[str, Any]]:
    """Recompute a model's samples in float32: a row of `AUDITS` for each, in their order.

    Raises:
        TokenmartError: a text or probe has changed (`other-tokens`); or the model doesn't fit,
            can't be loaded, or does something unknown after its head.
    """
    from extract.audit.causes import behind_one_token, mistake_of, pattern_of

    config = plan.config.get_text_config()
    forwards = forwards_of(samples, merged=not depends_on_length(config))
    text = max((each.ids for each in forwards), key=len)
    selection = replace(plan.selection, dtype="float32")
    available = available_memory(selection.device)
    memory = planned_memory(selection, plan.spec, len(text), plan.checkpoint.folder, available)
    loading = Loading(plan.spec, plan.checkpoint, selection.device, "float32", memory=memory)
    # one model in memory at a time
    others = {sample.dtype for sample in samples} - {"float32"}
    accepted = {name: _tolerance_in(name, loading, text) for name in others}
    model = load_model(loading)
    accepted["float32"] = tolerance(model, text)
    number = np.repeat(np.arange(len(samples)), [each.rows.num_rows for each in samples])
    worst = np.array([accepted[sample.dtype][1] for sample in samples])
    stored, own = stored_columns(samples), recomputed(model, forwards, worst[number], progress)
    rows, unexplained = [], []
    for place, sample in enumerate(samples):
        theirs = {name: values[number == place] for name, values in stored.items()}
        ours = {name: values[number == place] for name, values in own.items()}
        is_other = np.zeros(len(number), dtype=bool)
        is_other[number == place] = differing(theirs, ours, *accepted[sample.dtype])
        row = _row(sample, theirs, ours) | {"tolerance": worst[place], "seed": seed}
        row |= {"differing": int(is_other.sum()), "cause": ""}
        if row["differing"]:
            values = stored["logprob"], is_other, worst[place]
            row["cause"] = mistake_of(model, forwards, *values, plan.tokenizer)
        if row["differing"] and not row["cause"]:
            off = np.abs(theirs["logprob"] - ours["logprob"])
            shortest = behind_one_token(model, sample)
            seen = off, sample.rows["context_tokens"].to_numpy(), shortest, worst[place]
            unexplained.append((row, seen))
        rows.append(row)
    del model
    noise = {name: _tolerance_in(name, loading, text) for name in NOISY if unexplained}
    for row, seen in unexplained:
        row["cause"] = pattern_of(*seen, noise)
    return rows


def _tolerance_in(dtype: str, loading: Loading, text: Ids) -> tuple[float, float]:
    return tolerance(load_model(replace(loading, dtype=dtype)), text)


def _row(sample: Sample, stored: Mapping[str, Floats], own: Mapping[str, Floats]) -> dict[str, Any]:
    """What a row of `AUDITS` has of a sample; null where the store has no such column."""
    off = {name: np.abs(stored[name] - own[name]) for name in stored}
    given = {name: values for name, values in off.items() if not np.isnan(values).any()}
    return {
        "condition": sample.condition,
        "units_sha256": sample.units_sha256,
        "sampled": sample.rows.num_rows,
        **{f"largest_{name}": float(values.max()) for name, values in given.items()},
        **{f"mean_{name}": float(values.mean()) for name, values in given.items()},
        "other_ranks": int((given["rank"] > 0).sum()) if "rank" in given else None,
        "audited_at": datetime.now(timezone.utc),
        "code_revision": running_code()[0],
    }


def published_dtype(plan: ModelPlan) -> str:
    """The number format of a model's configuration, in which other programs run it."""
    name = str(plan.config.get_text_config().dtype).removeprefix("torch.")
    return name if name in BYTES else "float32"


def stored_samples(plan: ModelPlan, states: Sequence[Mapping[str, Any]], seed: int) -> list[Sample]:
    """Samples of stored rows, with the inputs that the text and the condition give.

    Args:
        states: of conditions: rows of `audit_states` with `planned`, the rows to sample.

    Raises:
        TokenmartError: a document or its tokens can't be read.
    """
    selection = plan.selection
    conditions = {condition.name: condition for condition in selection.conditions}
    table = ensure_documents(selection.problem, selection.workspace)
    documents = documents_of(table, None, selection.conditions)
    samples = []
    with connect_to_parquet(selection.workspace) as connection:
        for state in states:
            condition = conditions[state["condition"]]
            name = f"{plan.spec.model_id} {condition.name}"
            params = {
                "problem": selection.problem.name,
                "model_id": plan.spec.model_id,
                "condition": condition.name,
                "places": sampled_places(state["rows"], state["planned"], seed, name).tolist(),
                "shortest": SHORTEST,
            }
            rows = connection.sql(_ROWS, params=params).to_arrow_table()
            requests: dict[tuple[int, int], Request] = {}
            lengths = {row["doc_id"]: row["document_tokens"] for row in rows.to_pylist()}
            for doc_id, length in lengths.items():
                tokens = plan.tokenizer.encode(documents[doc_id].text).cut(length)
                built = condition.build(plan.reading(documents[doc_id], tokens, (condition,)))
                requests |= {(doc_id, request.segment): request for request in built}
            dtype = state["unit_dtype"] or published_dtype(plan)
            sampled, shortest = rows.filter(rows["is_sampled"]), rows.filter(rows["is_short"])
            sha256 = state["present_sha256"]
            samples.append(Sample(condition.name, sampled, shortest, requests, dtype, sha256))
    return samples


def store_audits(plan: ModelPlan, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store audits of conditions of a model; those of its other conditions stay.

    Raises:
        StorageError: the folder can't be written.
    """
    keys = plan.selection.problem.name, plan.spec.model_id
    path = table_path(plan.selection.workspace, "audits", *keys)
    old = read_table(path, schema=AUDITS).to_pylist() if path.is_file() else []
    merged = {row["condition"]: row for row in [*old, *rows]}
    table = pa.Table.from_pylist([merged[name] for name in sorted(merged)], schema=AUDITS)
    write_table(path, table)


def present_sha256(plan: ModelPlan, condition: str) -> str:
    """The hash of a condition's units as they are stored now."""
    keys = [plan.selection.problem.name, plan.spec.model_id, condition]
    where = "problem = ? and model_id = ? and condition = ?"
    with connect_to_parquet(plan.selection.workspace) as connection:
        query = f"select present_sha256 from audit_states where {where}"
        return str(connection.execute(query, keys).fetchall()[0][0])
