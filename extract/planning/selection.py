"""The selected part of a problem, how it is run, and which stored units such a run keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from extract.scoring.statistics import ENGINE_VERSION, PROGRAM
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.needed import identities_here, needed_table
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path
from warehouse.problem.unit_states import Text, Unit, unit_states
from warehouse.sources.documents import BYTES_PER_TOKEN, TextSize, text_size
from warehouse.store.ledger import UnitRecord, whole_tokens
from warehouse.store.parquet_files import read_table
from warehouse.store.token_files import stored_top_k
from warehouse.terminal import counted


@dataclass(frozen=True)
class Selection:
    """The part of a problem to run, how, and where its files are.

    `documents` is the number of the first documents that are used, `max_tokens` of each the number
    of its first tokens; None for all. With `force`, finished units are replaced by others that have
    less: see `ModelPlan.refuse_less`.
    """

    problem: Problem
    workspace: Workspace
    models: tuple[ModelSpec, ...]
    conditions: tuple[Condition, ...]
    documents: int | None
    max_tokens: int | None
    device: str
    dtype: str
    attention: str | None = None
    fused: bool = True
    force: bool = False

    @cached_property
    def identities(self) -> dict[str, str]:
        """Identities of models whose files are here: see `identities_here`."""
        return identities_here(self.problem, self.workspace, self.models, self.conditions)

    @property
    def references(self) -> list[str]:
        """Full ids of the models that conditions compare with."""
        return sorted({c.reference for c in self.conditions if c.reference})

    def most_tokens(self, spec: ModelSpec) -> int | None:
        """Tokens of a document that a model reads at most.

        None where the problem does not cut documents at the model's context, or where that context
        is unknown until the model's files are here. One token of the context may be BOS.
        """
        rules = self.problem.documents
        if rules.too_long != "truncate":
            return None
        context = spec.context_limit(self.problem.folders(self.workspace))
        return None if context is None else max(2, context - 1 - rules.headroom)


def select(
    problem: Problem,
    workspace: Workspace,
    *,
    models: Sequence[str] = (),
    probes: Sequence[str] = (),
    documents: int | None = None,
    max_tokens: int | None = None,
    device: str,
    dtype: str,
    attention: str | None = None,
    top_k: int | None = None,
    fused: bool = True,
    force: bool = False,
) -> Selection:
    """The selection that the options of the command line give.

    Raises:
        ProblemFileError: an unknown model or probe; the message lists the known ones.
    """
    chosen = [problem.model(name) for name in models] if models else list(problem.ranked_models)
    wanted = [problem.probe(name) for name in probes] if probes else list(problem.probes)
    conditions = [c for probe in dict.fromkeys(wanted) for c in probe.conditions()]
    if top_k is not None:
        conditions = [replace(condition, top_k=top_k) for condition in conditions]
    in_file = problem.documents.max_tokens
    limits = [n for n in (max_tokens, in_file) if n is not None]
    return Selection(
        problem=problem,
        workspace=workspace,
        models=tuple(dict.fromkeys(chosen)),
        conditions=tuple(conditions),
        documents=documents,
        max_tokens=min(limits, default=None),
        device=device,
        dtype=dtype,
        attention=attention,
        fused=fused,
        force=force,
    )


def planned_units(
    selection: Selection, spec: ModelSpec, documents: Mapping[int, Text]
) -> list[Unit]:
    """The selected units of one model, with the states that they have for this run.

    The model's files need not be here: columns of the ledger show what a run would compute
    differently, except with another tokenizer. A plan compares fingerprints (`ModelPlan.units`).

    Raises:
        StorageError: a published file is damaged.
    """
    return [
        for_run(selection, unit, _other_columns(selection, spec, unit.record))
        if unit.record is not None
        else unit
        for unit in selected_units(selection, spec, documents)
    ]


def selected_units(
    selection: Selection, spec: ModelSpec, documents: Mapping[int, Text]
) -> list[Unit]:
    """The selected units of one model, whatever the settings of the run: see `unit_states`.

    Raises:
        StorageError: a published file is damaged.
    """
    needed = needed_table(selection.problem, [spec], selection.conditions, selection.identities)
    return unit_states(selection.workspace, needed, documents)


def for_run(selection: Selection, unit: Unit, other: str) -> Unit:
    """A recorded unit as a run sees it: outdated if it computes the unit again.

    Args:
        other: what the run would compute differently; empty for nothing.

    Raises:
        StorageError: a file of top-k tokens is damaged.
    """
    if unit.record is None or unit.state not in ("done", "failed"):
        return unit
    if unit.record.imported and selection.force:
        why = "imported, and --force recomputes"
    else:
        why = other or _lacking_top_k(selection, unit.record)
    return replace(unit, state="outdated", why=why) if why else unit


def _lacking_top_k(selection: Selection, record: UnitRecord) -> str:
    """The top-k tokens that the run stores and the unit doesn't have; empty for none."""
    wanted = {condition.name: condition.top_k for condition in selection.conditions}
    top_k = 0 if record.imported or record.status == "failed" else wanted[record.condition]
    if not top_k or not record.rows or stored_top_k(selection.workspace, record) >= top_k:
        return ""
    return f"no top-{top_k} tokens"


def _other_columns(selection: Selection, spec: ModelSpec, unit: UnitRecord) -> str:
    """What in a unit's record is not as a run would compute it; empty where all is."""
    if unit.imported:  # the program that wrote it had its own
        return ""
    # `auto` leaves the dtype to the device, which may be another machine's
    dtype = selection.dtype if selection.dtype != "auto" else spec.dtype
    if dtype not in ("auto", unit.dtype):
        return "another dtype"
    if (unit.engine, unit.backend) != (ENGINE_VERSION, PROGRAM):
        return "another engine"
    if unit.status == "failed":
        return ""
    whole, most = whole_tokens(unit, selection.max_tokens), selection.most_tokens(spec)
    truncates = selection.problem.documents.too_long == "truncate"
    # a context that only the configuration gives, which is not here, can cut anywhere
    fewest = whole if not truncates else 0 if most is None else min(whole, most)
    return "" if fewest <= unit.document_tokens <= whole else "another number of tokens was read"


def refuse_mixing(spec: ModelSpec, units: Sequence[Unit], computed: Collection[str]) -> None:
    """Stop before scores made here and imported ones stand in the same condition.

    Raises:
        TokenmartError: they would be.
    """
    for unit in units:
        kept = unit.state == "done" and unit.record is not None and unit.record.imported
        if kept and unit.condition in computed:
            raise TokenmartError(
                f"{spec.full_id}: log-probabilities of condition {unit.condition} were imported, "
                "but not of all documents; import them again with all documents and --force, or "
                "score all documents here with `tokenmart extract --force`",
                code="imported-units",
                where=f"{spec.full_id}: {unit.condition}",
            )


def document_lengths(selection: Selection) -> tuple[list[int], list[str], str]:
    """Tokens per document (estimated from UTF-8 bytes), their names, and where this comes from.

    Texts that are not here have no names.
    """
    problem, limit = selection.problem, selection.max_tokens
    documents = problem.documents
    folders = problem.folders(selection.workspace)
    texts = documents.placed(folders)
    path = documents_path(problem, selection.workspace)
    sizes: list[TextSize] | None = None
    names: list[str] = []
    if texts is not None:
        names = [document.name for document in texts]
        sizes = [text_size(document.text).cut(documents.max_characters) for document in texts]
    elif path.is_file():
        rows = read_table(path, ["name", "characters", "bytes"]).to_pylist()
        names = [row["name"] for row in rows]
        sizes = [TextSize(row["characters"], row["bytes"]) for row in rows]
    if sizes is None:
        count = documents.count or 1
        lengths = [documents.expected_tokens] * min(count, selection.documents or count)
        origin = (
            f"{'an unknown number of' if documents.count is None else len(lengths)} documents, "
            f"counted as {len(lengths)} of {documents.expected_tokens:,} tokens, since they are "
            f"not here yet ({documents.required_file(folders).place})"
        )
    else:
        sizes = sizes[: selection.documents]
        lengths = [size.tokens for size in sizes]
        origin = (
            f"{counted(len(lengths), 'document')} of {sum(size.characters for size in sizes):,} "
            f"characters, counted as {BYTES_PER_TOKEN} bytes of UTF-8 a token"
        )
    return [min(n, limit) if limit else n for n in lengths], names[: len(lengths)], origin
