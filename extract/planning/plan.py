"""Work to do: fingerprints and missing units of what was selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from extract.backends.backend import ENGINE_VERSION
from extract.checkpoints import Checkpoint, find_checkpoint
from extract.devices import resolve_dtype
from extract.failures import Failure
from extract.planning.selection import Selection
from extract.planning.shorter_runs import refuse_less
from extract.tokenization import (
    DocumentTokenizer,
    TokenizedDocument,
    load_tokenizer,
    tokenizer_fingerprint,
)
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition, Reading
from warehouse.problem.models import ModelSpec
from warehouse.store.ledger import UnitRecord, fingerprint
from warehouse.store.token_files import finished_units, has_top_tokens


@dataclass(frozen=True)
class Document:
    """One proxy document; `foreign` is the one that controls put in its place."""

    doc_id: int
    name: str
    sha256: str
    text: str
    foreign: Document | None = None


@dataclass(frozen=True)
class Task:
    """The missing conditions of one (model, document), scored together.

    Attributes:
        document: the text.
        fingerprints: of each condition's unit.
        missing: the conditions.
        longer: fingerprints of units that are the same but read more tokens, by condition.
    """

    document: Document
    fingerprints: dict[str, str]
    missing: tuple[Condition, ...]
    longer: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelPlan:
    """One model, ready to load, and the tasks left for it.

    Tokenizer and configuration are loaded when they are first needed: a plan with nothing to
    do costs a look at the ledger.

    Attributes:
        selection: what it is a part of.
        spec: the model of the problem file.
        checkpoint: its files.
        tokenizer_sha256: fingerprint of tokenizer and BOS policy.
        dtype: what to compute in.
        facts: what rows of this model depend on, for any document; a part of fingerprints.
        tasks: what is missing.
        done: number of settled units.
        failed: those of them that failed in this run, and why.
        longer: how many settled units read more tokens than the command line asks for.
    """

    selection: Selection
    spec: ModelSpec
    checkpoint: Checkpoint
    tokenizer_sha256: str
    dtype: str
    facts: dict[str, Any]
    tasks: tuple[Task, ...]
    done: int
    failed: tuple[Failure, ...]
    longer: int = 0

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
        """Longest input the model is meant for: the problem file's word, else its own."""
        if self.spec.context is not None:
            return self.spec.context
        limit = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)

    def tokenize(self, document: Document) -> TokenizedDocument:
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
            keep = min(keep, max(2, most - rules.room))
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
        self, document: Document, tokenized: TokenizedDocument, conditions: Sequence[Condition]
    ) -> Reading:
        """The inputs from which conditions build requests."""
        foreign = None
        if document.foreign and any(condition.kind.reads_foreign for condition in conditions):
            other = self.tokenizer.encode(document.foreign.text).cut(len(tokenized.ids))
            foreign = self.reading(document.foreign, other, ())
        spans = tokenized.char_start, tokenized.char_end
        return Reading(tokenized.ids, *spans, document.text, self.tokenizer.bos, foreign)


def most_tokens(selection: Selection, spec: ModelSpec) -> int | None:
    """Tokens of a document that a model reads at most.

    None where the problem does not cut documents at the model's context, or where that context is
    unknown until the model's files are here. One token of the context may be BOS.
    """
    problem = selection.problem
    if problem.documents.too_long != "truncate":
        return None
    context = spec.context_limit(problem.folders(selection.workspace))
    return None if context is None else max(2, context - 1 - problem.documents.room)


def describe_interventions(spec: ModelSpec) -> list[dict[str, Any]]:
    """Plain values for the fingerprint and the models table."""
    return [item.model_dump(exclude_none=True) for item in spec.interventions]


def describe_corrections(spec: ModelSpec, too_long: str = "refuse") -> dict[str, Any]:
    """Corrections of a configuration in the problem file, as far as rows depend on them."""
    rope = {} if spec.rope is None else {"rope": spec.rope.model_dump(exclude_none=True)}
    return rope | ({"context": spec.context} if spec.context and too_long == "truncate" else {})


def documents_of(
    table: pa.Table, limit: int | None, conditions: Sequence[Condition] = ()
) -> list[Document]:
    """The first `limit` documents, for these conditions.

    The foreign document of each is the corpus's next longer one (of the longest, the next
    shorter), so that a control's prefix is about as long as the document.

    Raises:
        TokenmartError: a document is empty, or a condition needs another one and there is none.
    """
    needy = [condition.name for condition in conditions if condition.kind.reads_foreign]
    if needy and table.num_rows < 2:
        raise TokenmartError(
            f"condition {needy[0]} reads another document, and the corpus has only one; add "
            "documents, or take the control out of the problem file"
        )
    rows = table.to_pylist()
    for row in rows[:limit]:
        if not row["text"].strip():
            raise TokenmartError(
                f"document {row['doc_id']} ({row['name']}) is empty; remove it from the corpus"
            )
    documents = [Document(row["doc_id"], row["name"], row["sha256"], row["text"]) for row in rows]
    by_length = sorted(documents, key=lambda each: (len(each.text), each.doc_id))
    following = {
        one.doc_id: other
        for one, other in zip(by_length, [*by_length[1:], *by_length[-2:-1]], strict=False)
    }
    return [replace(each, foreign=following.get(each.doc_id)) for each in documents[:limit]]


def plan_model(
    selection: Selection, spec: ModelSpec, documents: Sequence[Document], since: str | None = None
) -> ModelPlan:
    """Find a model's files and what is left to compute for it. Nothing heavy is loaded.

    Units that failed after `since` are settled; without it failed units are repeated. So are units
    that read more tokens than the command line asks for.

    Raises:
        TokenmartError: files are missing or can't be read, or finished units would be replaced by
            others that read fewer tokens.
        StorageError: a published file is damaged.
    """
    problem, workspace = selection.problem, selection.workspace
    checkpoint = find_checkpoint(spec, workspace, problem.name, problem.asked)
    tokenizer_sha256 = tokenizer_fingerprint(checkpoint, spec, workspace)
    dtype = resolve_dtype(spec, selection.dtype, selection.device)
    rules = problem.documents
    facts = {
        "revision": checkpoint.revision,
        "interventions": describe_interventions(spec),
        "tokenizer": tokenizer_sha256,
        "dtype": dtype,
        "backend": selection.backend,
        "engine": ENGINE_VERSION,
        # Fused kernels differ by the order of float32 sums. Eager attention also rounds its
        # weights to the dtype, which moves log-probs as far as everything else in that dtype
        # together: its rows are never mixed with the others'
        "attention": "eager" if selection.attention == "eager" else "fused",
        "max_tokens": selection.max_tokens,
        "too_long": rules.too_long,
        **({"room": rules.room} if rules.room else {}),
        **describe_corrections(spec, rules.too_long),
    }
    ledgers = {
        condition.name: finished_units(workspace, problem.name, spec.model_id, condition.name)
        for condition in selection.conditions
    }
    lengths = _longer_limits(selection, ledgers)
    tasks, failed, done, kept_longer = [], [], 0, 0
    for document in documents:
        fingerprints = {c.name: _fingerprint(facts, document, c) for c in selection.conditions}
        longer = {
            c.name: frozenset(
                _fingerprint({**facts, "max_tokens": n}, document, c) for n in lengths
            )
            for c in selection.conditions
        }
        everything = Task(document, fingerprints, selection.conditions, longer)
        missing = unsettled(everything, ledgers, workspace, since)
        settled = [c for c in selection.conditions if c not in missing]
        done += len(settled)
        for condition in settled:
            unit = ledgers[condition.name][document.doc_id]
            kept_longer += unit.fingerprint in longer[condition.name]
            if unit.status == "failed":
                failed.append(Failure(spec.full_id, unit.reason, document.doc_id))
        if missing:
            tasks.append(replace(everything, missing=missing))
    if not selection.force:
        context = most_tokens(selection, spec)
        limits = [n for n in (selection.max_tokens, context) if n is not None]
        refuse_less(selection, spec, limits, tasks, ledgers)
    return ModelPlan(
        selection=selection,
        spec=spec,
        checkpoint=checkpoint,
        tokenizer_sha256=tokenizer_sha256,
        dtype=dtype,
        facts=facts,
        tasks=tuple(tasks),
        done=done,
        failed=tuple(failed),
        longer=kept_longer,
    )


def _longer_limits(
    selection: Selection, ledgers: Mapping[str, Mapping[int, UnitRecord]]
) -> set[int | None]:
    """Limits of tokens, larger than the command line's, under which units may have been scored."""
    if not selection.cut_here or selection.force:
        return set()
    problem, limit = selection.problem, selection.max_tokens or 0
    found: set[int | None] = {problem.documents.max_tokens}
    if problem.demo is not None:
        found.add(problem.demo.max_tokens)
    for ledger in ledgers.values():
        cut = (u for u in ledger.values() if u.document_tokens < u.document_tokens_total)
        found |= {unit.document_tokens for unit in cut}
    return {n for n in found if n is None or n > limit}


def _fingerprint(facts: dict[str, Any], document: Document, condition: Condition) -> str:
    kind = condition.kind
    parts = {**facts, "document": document.sha256, "kind": kind.name, "params": condition.params}
    if kind.revision > 1:
        parts["kind_revision"] = kind.revision
    if kind.reads_foreign and document.foreign:
        parts["foreign"] = document.foreign.sha256
    return fingerprint(parts)


def unsettled(
    task: Task,
    ledgers: Mapping[str, Mapping[int, UnitRecord]],
    workspace: Workspace,
    since: str | None,
) -> tuple[Condition, ...]:
    """The conditions of a task whose units are neither done as asked for, nor failed since `since`.

    A done unit has as many top-k tokens as its condition requests. `ledgers` has the units of each
    condition by document.
    """

    def is_settled(condition: Condition) -> bool:
        unit = ledgers[condition.name].get(task.document.doc_id)
        if unit is None:
            return False
        if unit.fingerprint != task.fingerprints[condition.name]:
            longer = unit.status == "done" and unit.fingerprint in task.longer.get(
                condition.name, ()
            )
            if not longer:
                return False
        if unit.status == "failed":
            return since is not None and unit.finished_at >= since
        return not (
            condition.top_k and unit.rows and not has_top_tokens(workspace, unit, condition.top_k)
        )

    return tuple(condition for condition in task.missing if not is_settled(condition))
