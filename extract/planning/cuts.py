"""Length of each document that a model reads: planned before a run, counted in the ledger after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.terminal import counted

NAMED = 3
"""Number of models that are named; the rest is counted."""


def most_tokens(problem: Problem, spec: ModelSpec, workspace: Workspace) -> int | None:
    """Tokens of a document that a model reads at most.

    None where the problem does not cut documents at the model's context, or where that context is
    unknown until the model's files are here. One token of the context may be BOS.
    """
    if problem.documents.too_long != "truncate":
        return None
    context = spec.context_limit(problem.place(workspace))
    return None if context is None else max(2, context - 1 - problem.documents.room)


def read_lengths(
    lengths: Sequence[int], problem: Problem, spec: ModelSpec, workspace: Workspace
) -> list[int]:
    """Tokens that a model reads of documents of these lengths."""
    most = most_tokens(problem, spec, workspace)
    return [n if most is None else min(n, most) for n in lengths]


def cut_notes(
    lengths: Sequence[int], problem: Problem, models: Iterable[ModelSpec], workspace: Workspace
) -> list[str]:
    """Notes of a plan on documents longer than a model's context.

    Args:
        lengths: estimated tokens of each document.
        problem: defines what happens to such a document.
        models: that will read them.
        workspace: where the models' files are.
    """
    place = problem.place(workspace)
    by_context: dict[int | None, list[str]] = {}
    for spec in models:
        by_context.setdefault(spec.context_limit(place), []).append(spec.full_id)
    documents = problem.documents
    several = sum(map(len, by_context.values())) > 1
    alike = "; documents.max_characters would cut them alike for every tokenizer" * several
    margin = documents.margin if documents.too_long == "run" else 0
    notes = []
    for context, names in by_context.items():
        if context is None:
            continue
        truncates = documents.too_long == "truncate"
        most = max(2, context - 1 - documents.room) if truncates else context + margin
        longer = [n for n in lengths if n > most]
        if not longer:
            continue
        about = f"{_listed(names)}: {len(longer)} of {counted(len(lengths), 'document')}"
        allows = f"a context of {context:,} tokens"
        if truncates:
            read, whole = sum(min(n, most) for n in lengths), sum(lengths)
            free = f" ({documents.room} left free)" if documents.room else ""
            notes.append(
                f"{about} will be cut to {allows}{free}: about {read:,} of {whole:,} tokens are "
                f"read{alike}"
            )
        else:
            notes.append(
                f"{about} may be too long for {allows} and will then fail for these models alone: "
                "set documents.too_long: truncate, or documents.max_tokens, in the problem file"
            )
    if documents.too_long == "truncate" and by_context.get(None):
        notes.append(
            f"context unknown until the files are here: {_listed(by_context[None])}; longer "
            "documents will be cut to it"
        )
    return notes


def cut_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Documents that were cut, one line for models with the same cuts: from `status_rows`."""
    found: dict[tuple[int, int, int, int], list[str]] = {}
    for name in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == name]
        most = max(mine, key=lambda row: row["cut"])
        if most["cut"]:
            key = (most["cut"], most["done"], most["tokens_read"], most["tokens_whole"])
            found.setdefault(key, []).append(name)
    return [
        f"{_listed(names)}: {cut} of {counted(done, 'document')} cut, {read:,} of {whole:,} tokens "
        "read"
        for (cut, done, read, whole), names in found.items()
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more models" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
