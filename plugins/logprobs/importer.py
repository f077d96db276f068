"""`data import --format prompt-logprobs`: log-probs of whole documents into `tokens`.

The rows are exactly those that the condition of the problem file would score. Whether the numbers
are of this model is known from the few that are recomputed first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa

from extract.audit.audit import audit_samples, present_sha256, published_dtype, store_audits
from extract.audit.rows import SHORTEST, Sample, sampled_places
from extract.devices import resolve_device
from extract.planning.cost import model_size
from extract.planning.documents import PlannedDocument, documents_of
from extract.planning.fingerprints import imported_fingerprint
from extract.planning.plan import ModelPlan, Task, plan_model
from extract.planning.selection import select
from extract.tokenization import TokenizedDocument
from extract.unit_rows import Job, ScoredUnit, model_file, unit_record, write_model
from plugins.logprobs.dump_files import load_steps
from plugins.logprobs.matching import match_prompts, match_rows, refuse_impossible
from warehouse.errors import TokenmartError, did_you_mean, visible
from warehouse.files import sha256_file
from warehouse.probes.request import Condition, Request
from warehouse.problem.importers import Destination, Importer
from warehouse.problem.needed import store_needed
from warehouse.problem.spec import Problem, load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.sources.configurations import vocabulary_size
from warehouse.store.schema import TOKENS, TOP_TOKENS
from warehouse.store.token_files import finished_units, publish, write_top_tokens, write_unit
from warehouse.terminal import counted

AUDITED = 200
"""Rows that are recomputed before they are stored."""

OPTIONAL = ("rank", "top_logprob", "entropy")


@dataclass(frozen=True)
class _Reading:
    """A document in the model's tokens, and the requests that the condition makes of it."""

    document: PlannedDocument
    tokens: TokenizedDocument
    requests: list[Request]


class PromptLogprobs(Importer):
    """Prompt log-probs of vLLM and SGLang, and plain tables; see `dump_files`."""

    kind = "prompt-logprobs"
    build = "tokenmart dbt build"
    has_conditions = True
    counts = ("token", "condition")

    def import_files(self, files: Sequence[Path], to: Destination) -> dict[str, int]:
        """Store one model's tokens in one condition, all documents or none.

        Returns:
            Tokens by condition.

        Raises:
            TokenmartError: a file can't be read (see `load_steps`), is not of exactly the
                condition's tokens, or has impossible numbers (see `matching`), or other units of
                the condition are stored (`stored-already`).
            StorageError: the disk is full or the folder can't be written.
        """
        problem = load_problem(to.argument or to.problem, to.workspace)
        condition = _condition(problem, to.condition)
        spec = next(model for model in problem.models if model.model_id == to.model_id)
        # `force`: what is stored is judged below, not by the plan
        selection = select(
            problem, to.workspace, models=[spec.full_id], device="cpu", dtype="auto", force=True
        )
        plan = plan_model(selection, spec, ())
        readings = []
        for document in documents_of(ensure_documents(problem, to.workspace), None):
            tokens = plan.tokenize(document)
            requests = condition.build(plan.reading(document, tokens, (condition,)))
            readings.append(_Reading(document, tokens, requests))
        with duckdb.connect() as connection:
            connection.register("requests", _requests(readings))
            connection.register("expected", _expected(readings))
            form = load_steps(connection, files)
            if form == "table":
                match_rows(connection)
            else:
                match_prompts(connection, plan.tokenizer.bos)
            refuse_impossible(connection, vocabulary_size(plan.checkpoint.folder))
            hashes = [[file.name, sha256_file(file)] for file in files]
            lacks = _lacking(connection)
            imported = json.dumps({"format": form, "files": hashes, "lacks": lacks})
            audited = _audit(connection, plan, condition.name, readings) if to.is_audited else []
            for reading in _missing(plan, condition, readings, imported, to.force):
                _store(connection, plan, condition, reading, form, imported)
            publish(to.workspace, problem.name, to.model_id, condition.name)
        if not model_file(plan).is_file():
            size = model_size(spec, to.workspace, plan.checkpoint.folder, problem.name)
            write_model(plan, size.parameters if size else 0)
        store_needed(problem, to.workspace)
        for row in audited:
            units_sha256 = present_sha256(plan, condition.name)
            store_audits(plan, [row | {"units_sha256": units_sha256}])
        scored = sum(len(each.positions) for reading in readings for each in reading.requests)
        return {condition.name: scored}


def _audit(
    connection: duckdb.DuckDBPyConnection,
    plan: ModelPlan,
    condition: str,
    readings: Sequence[_Reading],
) -> list[dict[str, Any]]:
    """Recompute some rows of `found`: their audit, none where the model can't run here.

    Raises:
        TokenmartError: they differ by more than rounding (`rows-differ`).
    """
    rows = connection.sql("from found order by doc_id, segment, position").to_arrow_table()
    requests = {
        (reading.document.doc_id, request.segment): request
        for reading in readings
        for request in reading.requests
    }
    places = sampled_places(rows.num_rows, min(AUDITED, rows.num_rows), 0, condition)
    shortest = rows.sort_by("context_tokens").slice(0, SHORTEST)
    dtype = published_dtype(plan)
    sample = Sample(condition, rows.take(places), shortest, requests, dtype)
    click.echo(f"recomputing {counted(len(places), 'row')} (not with --no-audit)", err=True)
    try:
        selection = replace(plan.selection, device=resolve_device("auto"))
        (audited,) = audit_samples(replace(plan, selection=selection), [sample], seed=0)
    except TokenmartError as error:
        click.echo(visible(f"note: not audited: {error.message}"), err=True)
        return []
    if cause := audited["cause"]:
        raise TokenmartError(
            f"{plan.spec.full_id}: {audited['differing']} of {audited['sampled']} recomputed rows "
            f"differ by up to {audited['largest_logprob']:.2g} nats (rounding explains "
            f"{audited['tolerance']:.1e}); likely cause: {cause}. docs/how_to/import_logprobs.md "
            "has the flags to set; --no-audit imports them as they are",
            code="rows-differ",
            where=cause,
        )
    return [audited]


def _condition(problem: Problem, name: str) -> Condition:
    """The condition to import into.

    Raises:
        TokenmartError: there is none of this name (`unknown-condition`), or it scores excerpts
            (`other-condition`).
    """
    known = {each.name: each for probe in problem.probes for each in probe.conditions()}
    if name not in known:
        raise TokenmartError(
            f"--condition {name}: no such condition; {did_you_mean(name, known)}conditions of the "
            f"problem: {', '.join(known)}",
            code="unknown-condition",
            where="--condition",
        )
    if not known[name].kind.contiguous:
        raise TokenmartError(
            f"--condition {name}: scores excerpts; give a condition of a full or a window probe",
            code="other-condition",
            where="--condition",
        )
    return known[name]


def _requests(readings: Sequence[_Reading]) -> pa.Table:
    """The prompts of the condition: request (number), doc_id, ids."""
    pairs = [(each.document.doc_id, request) for each in readings for request in each.requests]
    return pa.table(
        {
            "request": pa.array(range(len(pairs)), pa.int32()),
            "doc_id": pa.array([doc_id for doc_id, _ in pairs], pa.int32()),
            "ids": pa.array([request.ids for _, request in pairs], pa.list_(pa.int32())),
        }
    )


def _expected(readings: Sequence[_Reading]) -> pa.Table:
    """The rows of the condition without their scores, with request and step in its prompt.

    Raises:
        TokenmartError: there are none (`no-rows`).
    """
    pieces = []
    pairs = ((each, request) for each in readings for request in each.requests)
    for number, (reading, request) in enumerate(pairs):
        places, n = request.positions, len(request.positions)
        columns = {
            "request": np.full(n, number, np.int32),
            "step": request.first_target + np.arange(n, dtype=np.int32),
            "doc_id": np.full(n, reading.document.doc_id, np.int32),
            "segment": np.full(n, request.segment, np.int32),
            "position": places,
            "context_tokens": request.context_tokens,
            "token_id": request.targets,
            "char_start": reading.tokens.char_start[places],
            "char_end": reading.tokens.char_end[places],
        }
        pieces.append(pa.table(columns))
    if not pieces:
        what = "the condition scores no token of any document"
        raise TokenmartError(what, code="no-rows", where="--condition")
    return pa.concat_tables(pieces)


def _lacking(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Columns that not every row has: they are stored as null in all, so that no metric is of an
    arbitrary part of the tokens."""
    counts = ", ".join(f"count({name})" for name in OPTIONAL)
    rows, *given = connection.execute(f"select count(*), {counts} from found").fetchall()[0]
    lacking = {name: n for name, n in zip(OPTIONAL, given, strict=True) if n < rows}
    for name, n in lacking.items():
        some = f" ({n:,} of {rows:,} tokens have it)" if n else ""
        click.echo(visible(f"note: {name} is not given{some}; metrics of it stay empty"), err=True)
    return list(lacking)


def _missing(
    plan: ModelPlan,
    condition: Condition,
    readings: Sequence[_Reading],
    imported: str,
    force: bool,
) -> list[_Reading]:
    """The documents without a unit of these files; all if units of others are replaced.

    Raises:
        TokenmartError: units of others are stored (`stored-already`), and `force` isn't given.
    """
    keys = plan.selection.problem.name, plan.spec.model_id, condition.name
    stored = finished_units(plan.selection.workspace, *keys)
    done = {doc_id: unit for doc_id, unit in stored.items() if unit.status == "done"}
    others = any(unit.imported != imported for unit in done.values())
    if others and not force:
        raise TokenmartError(
            f"{plan.spec.full_id}: other log-probabilities of condition {condition.name} are "
            "stored; --force replaces them",
            code="stored-already",
            where=f"{plan.spec.full_id}: {condition.name}",
        )
    return [
        reading
        for reading in readings
        if others
        or reading.document.doc_id not in done
        or done[reading.document.doc_id].fingerprint
        != imported_fingerprint(plan.facts, reading.document, condition)
    ]


def _store(
    connection: duckdb.DuckDBPyConnection,
    plan: ModelPlan,
    condition: Condition,
    reading: _Reading,
    form: str,
    imported: str,
) -> None:
    """Store a document's rows and ledger record, and the top-k tokens that its probe asks for."""
    document, workspace = reading.document, plan.selection.workspace
    scores = {
        "logprob": "least(logprob, 0)",
        "top_logprob": "least(greatest(top_logprob, logprob), 0)",
        **dict.fromkeys(["varentropy", *json.loads(imported)["lacks"]], "null"),
    }
    columns = ", ".join(scores.get(name, name) for name in TOKENS.names)
    mine = f"found where doc_id = {document.doc_id}"
    rows = connection.sql(f"select {columns} from {mine}").to_arrow_table()
    rows = rows.rename_columns(TOKENS.names).cast(TOKENS)
    task = Task(
        document,
        {condition.name: imported_fingerprint(plan.facts, document, condition)},
        (condition,),
    )
    processed = sum(len(request.ids) for request in reading.requests)
    scored = ScoredUnit(condition, reading.requests, (), "", processed, 0.0, 0)
    unit = replace(
        unit_record(Job(plan, task, reading.tokens), scored, rows.num_rows),
        backend=form,
        imported=imported,
        # of the program that computed them nothing else is known
        device="",
        dtype="",
        engine="",
        torch_version="",
        transformers_version="",
    )
    choices = None
    if condition.top_k:
        choices = connection.sql(
            "select doc_id, segment, position, choice.rank, choice.id,"
            " round(choice.logprob * 32768) / 32768"
            f" from (select doc_id, segment, position, unnest(choices) as choice from {mine})"
            f" where choice.rank <= {condition.top_k} order by segment, position, choice.rank"
        ).to_arrow_table()
        choices = choices.rename_columns(TOP_TOKENS.names).cast(TOP_TOKENS)
    write_top_tokens(workspace, unit, choices, condition.top_k)
    write_unit(workspace, unit, rows)
