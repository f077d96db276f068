"""What a command line asks for: the selected part of a problem, and how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from extract.backends.backend import DEFAULT, find_backend
from extract.devices import resolve_attention
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem


@dataclass(frozen=True)
class Selection:
    """The part of a problem to run, how, and where its files are.

    `documents` is the number of the first documents that are used, `max_tokens` of each the number
    of its first tokens; None for all. `cut_here` says that the command line asks for fewer tokens
    than the problem file, `force` that finished units which read more are replaced.
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
    backend: str = DEFAULT
    cut_here: bool = False
    force: bool = False


def select(
    problem: Problem,
    workspace: Workspace,
    *,
    models: Sequence[str] = (),
    probes: Sequence[str] = (),
    documents: int | None = None,
    max_tokens: int | None = None,
    demo: bool = False,
    device: str,
    dtype: str,
    attention: str | None = None,
    backend: str = DEFAULT,
    top_k: int | None = None,
    force: bool = False,
) -> Selection:
    """Resolve the command line's words against the problem.

    Raises:
        ProblemFileError: an unknown model or probe; the message lists the known ones.
        TokenmartError: no such backend, an attention that can't run here, or no demo.
    """
    if demo:
        if problem.demo is None:
            raise TokenmartError(
                f"problem {problem.name} has no `demo` section; leave out --demo or add one"
            )
        documents = documents or problem.demo.documents
        max_tokens = max_tokens or problem.demo.max_tokens
        models = models or problem.demo.models
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
        attention=resolve_attention(attention, device),
        backend=find_backend(backend).kind,
        cut_here=max_tokens is not None and (in_file is None or max_tokens < in_file),
        force=force,
    )
