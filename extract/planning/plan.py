"""The plan of one model: its files, and the units that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from extract.checkpoints import Checkpoint, find_checkpoint
from extract.devices import resolve_dtype
from extract.failures import Failure
from extract.planning.documents import PlannedDocument, texts_of
from extract.planning.fingerprints import imported_fingerprint, model_facts, unit_fingerprint
from extract.planning.selection import Selection, for_run, refuse_mixing, selected_units
from extract.tokenization import (
    DocumentTokenizer,
    TokenizedDocument,
    load_tokenizer,
    refuse_other_vocabulary,
    tokenizer_fingerprint,
)
from warehouse.errors import TokenmartError
from warehouse.probes.request import Condition, DocumentTokens
from warehouse.problem.models import ModelSpec
from warehouse.problem.unit_states import Unit
from warehouse.store.ledger import UnitRecord, whole_tokens
from warehouse.store.token_files import stored_top_k


@dataclass(frozen=True)
class Task:
    """The missing conditions of one (model, document), scored together.

    Attributes:
        document: the text.
        fingerprints: of each condition's unit.
        missing: the conditions.
        replaced: finished units of the same text that theirs replace, by condition.
    """

    document: PlannedDocument
    fingerprints: dict[str, str]
    missing: tuple[Condition, ...]
    replaced: Mapping[str, UnitRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelPlan:
    """One model, ready to load, and the tasks left for it.

    Tokenizer and configuration are loaded when they are first needed: a plan with nothing to
    do costs a look at the ledger.

    Attributes:
        selection: the run that it is a part of.
        spec: the model of the problem file.
        checkpoint: its files.
        tokenizer_sha256: fingerprint of tokenizer and BOS policy.
        dtype: what to compute in.
        facts: what rows of this model depend on, for any document; a part of fingerprints.
        references: plans, without tasks, of the models that it is compared with, by full id.
        since: units that failed after this time are not tried again; None: every failed unit is.
        tasks: what is missing.
        done: number of units that are not computed: finished, or failed in this run.
        failed: those that failed in this run, and why.
    """

    selection: Selection
    spec: ModelSpec
    checkpoint: Checkpoint
    tokenizer_sha256: str
    dtype: str
    facts: dict[str, Any]
    references: Mapping[str, ModelPlan]
    since: str | None = None
    tasks: tuple[Task, ...] = ()
    done: int = 0
    failed: tuple[Failure, ...] = ()

    @cached_property
    def tokenizer(self) -> DocumentTokenizer:
        """The model's tokenizer."""
        return load_tokenizer(self.checkpoint, self.spec)

    @cached_property
    def config(self) -> Any:
        """The model's configuration, interventions applied."""
        from extract.models.loading import load_config

        return load_config(self.checkpoint, self.spec)

    @property
    def context_limit(self) -> int | None:
        """Longest input in tokens: `context` of the problem file, else of its configuration."""
        if self.spec.context is not None:
            return self.spec.context
        limit = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)

    def fingerprint(self, document: PlannedDocument, condition: Condition, **changed: Any) -> str:
        """The fingerprint of a unit of this run; `changed` replaces facts of the model."""
        reference = self.references.get(condition.reference)
        of_reference = None if reference is None else reference.facts
        return unit_fingerprint({**self.facts, **changed}, document, condition, of_reference)

    def accepted(
        self, record: UnitRecord, document: PlannedDocument, condition: Condition
    ) -> set[str]:
        """The fingerprints that a stored unit of a document and condition may have."""
        if record.imported:
            return {imported_fingerprint(self.facts, document, condition)}
        limits = {self.selection.max_tokens}
        if record.document_tokens == whole_tokens(record, self.selection.max_tokens):
            # no limit of these cut it
            limits |= {self.selection.problem.documents.max_tokens, None}
        return {self.fingerprint(document, condition, max_tokens=limit) for limit in limits}

    def units(self, documents: Sequence[PlannedDocument]) -> list[Unit]:
        """The selected units of these documents, with the states that they have for this run.

        Raises:
            StorageError: a published file is damaged.
        """
        by_id = {document.doc_id: document for document in documents}
        conditions = {condition.name: condition for condition in self.selection.conditions}
        units = []
        for unit in selected_units(self.selection, self.spec, texts_of(documents)):
            other = ""
            if unit.record is not None and unit.state != "outdated":
                keys = by_id[unit.doc_id], conditions[unit.condition]
                is_same = unit.record.fingerprint in self.accepted(unit.record, *keys)
                other = "" if is_same else "another fingerprint"
            units.append(for_run(self.selection, unit, other))
        return units

    def left(self, task: Task) -> tuple[Condition, ...]:
        """Conditions of a task that no process has finished or tried since the plan was made."""
        missing = {
            unit.condition for unit in self.units([task.document]) if is_missing(unit, self.since)
        }
        return tuple(condition for condition in task.missing if condition.name in missing)

    def tokenize(self, document: PlannedDocument) -> TokenizedDocument:
        """A document in the model's tokens, cut if the problem file requires it.

        Raises:
            TokenmartError: no tokens, or longer than the model's context by more than may run.
        """
        whole = self.tokenizer.encode(document.text)
        total = whole.total_tokens
        if total < 2:
            raise TokenmartError(f"{total} tokens; remove it from the corpus")
        keep = min(total, self.selection.max_tokens or total)
        context, rules = self.context_limit, self.selection.problem.documents
        most = keep if context is None else context - (self.tokenizer.bos is not None)
        if rules.too_long == "truncate":
            keep = min(keep, max(2, most - rules.headroom))
        over = max(0, keep - most)
        margin = rules.margin if rules.too_long == "run" else 0
        if over > margin:
            allowed = f" and a margin of {margin}" if rules.too_long == "run" else ""
            raise TokenmartError(
                f"{keep} tokens, too many for the model, whose context is {context}{allowed}; set "
                "documents.max_tokens, documents.too_long: truncate (or run, with a margin), or "
                "the model's `context` in the problem file"
            )
        return whole.cut(keep, over)

    def reading(
        self,
        document: PlannedDocument,
        tokenized: TokenizedDocument,
        conditions: Sequence[Condition],
    ) -> DocumentTokens:
        """The inputs from which conditions build requests."""
        foreign = None
        if document.foreign and any(condition.kind.reads_foreign for condition in conditions):
            other = self.tokenizer.encode(document.foreign.text).cut(len(tokenized.ids))
            foreign = self.reading(document.foreign, other, ())
        spans = tokenized.char_start, tokenized.char_end
        return DocumentTokens(tokenized.ids, *spans, document.text, self.tokenizer.bos, foreign)

    def refuse_less(self, task: Task, tokenized: TokenizedDocument) -> None:
        """Stop before finished units of a document are replaced by others that have less of it.

        They read fewer tokens, score fewer (of a probe of which the problem file now asks for fewer
        excerpts or shorter targets), or store fewer of the most likely tokens. Only `--force`
        replaces them; without it the document fails, and what is stored stays.

        Raises:
            TokenmartError: they would be.
        """
        if self.selection.force:
            return
        for condition in task.missing:
            unit = task.replaced.get(condition.name)
            if unit is None:
                continue
            top_k = stored_top_k(self.selection.workspace, unit)
            amounts = [("top-k tokens of each row", top_k, condition.top_k)]
            # another tokenizer's tokens can't be compared with these
            if unit.document_tokens_total == tokenized.total_tokens:
                requests = condition.build(self.reading(task.document, tokenized, [condition]))
                rows = sum(len(request.targets) for request in requests)
                amounts += [
                    ("tokens of the document", unit.document_tokens, len(tokenized.ids)),
                    ("rows", unit.rows, rows),
                ]
            for what, stored, new in amounts:
                if new < stored:
                    raise TokenmartError(
                        f"{self.spec.full_id}: condition {condition.name} of document "
                        f"{unit.doc_id} has {stored:,} {what} and would be replaced by one with "
                        f"{new:,}; give the probe another name, or use --force to replace "
                        "finished units",
                        code="shorter-run",
                        where=condition.name,
                    )


def is_missing(unit: Unit, since: str | None) -> bool:
    """Whether a run that began at `since` computes the unit: see `ModelPlan.since`."""
    if unit.state == "failed" and unit.record is not None:
        return since is None or unit.record.finished_at < since
    return unit.state != "done"


def plan_model(
    selection: Selection,
    spec: ModelSpec,
    documents: Sequence[PlannedDocument],
    since: str | None = None,
) -> ModelPlan:
    """Find a model's files and what is left to compute for it. Nothing heavy is loaded.

    Units that failed after `since` are not tried again; without it every failed unit is.

    Raises:
        TokenmartError: files are missing or can't be read, a reference has another vocabulary, or
            imported units and others would stand in one condition.
        StorageError: a published file is damaged.
    """
    plan = _without_tasks(selection, spec, since)
    units = plan.units(documents)
    missing = [unit for unit in units if is_missing(unit, since)]
    kept = [unit for unit in units if not is_missing(unit, since)]
    refuse_mixing(spec, units, {unit.condition for unit in missing})
    by_document: dict[int, list[Unit]] = {}
    for unit in missing:
        by_document.setdefault(unit.doc_id, []).append(unit)
    by_id = {document.doc_id: document for document in documents}
    return replace(
        plan,
        tasks=tuple(_task(plan, by_id[n], by_document[n]) for n in sorted(by_document)),
        done=len(kept),
        failed=tuple(
            Failure(spec.full_id, unit.why, unit.doc_id) for unit in kept if unit.state == "failed"
        ),
    )


def _without_tasks(selection: Selection, spec: ModelSpec, since: str | None) -> ModelPlan:
    """A plan of the model's files and facts."""
    problem, workspace = selection.problem, selection.workspace
    checkpoint = find_checkpoint(spec, workspace, problem.name, problem.argument)
    tokenizer_sha256 = tokenizer_fingerprint(checkpoint, spec, workspace)
    dtype = resolve_dtype(spec, selection.dtype, selection.device)
    plan = ModelPlan(
        selection=selection,
        spec=spec,
        checkpoint=checkpoint,
        tokenizer_sha256=tokenizer_sha256,
        dtype=dtype,
        facts=model_facts(selection, spec, checkpoint, tokenizer_sha256, dtype),
        references=_reference_plans(selection),
        since=since,
    )
    for reference in plan.references.values():
        if reference.tokenizer_sha256 != tokenizer_sha256:
            refuse_other_vocabulary(spec, plan.tokenizer, reference.spec, reference.tokenizer)
    return plan


def _reference_plans(selection: Selection) -> dict[str, ModelPlan]:
    """Plans, without tasks, of the models that conditions compare with, by full id."""
    bare = replace(selection, conditions=())
    return {
        name: _without_tasks(bare, selection.problem.model(name), None)
        for name in selection.references
    }


def _task(plan: ModelPlan, document: PlannedDocument, missing: Sequence[Unit]) -> Task:
    """The missing units of a document as one task."""
    conditions = {condition.name: condition for condition in plan.selection.conditions}
    return Task(
        document=document,
        fingerprints={name: plan.fingerprint(document, c) for name, c in conditions.items()},
        missing=tuple(conditions[unit.condition] for unit in missing),
        replaced={
            unit.condition: unit.record
            for unit in missing
            if unit.record
            and unit.record.status == "done"
            and unit.record.document_sha256 == document.sha256
        },
    )
