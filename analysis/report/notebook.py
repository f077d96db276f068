"""`tm.open` and `tm.show`: a workspace and the tokens of a document, displayed by a notebook.

import tokenmart as tm

tm.open()
tm.show("0", "smollm2-135m", "gemma3-270m", measure="gain")
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from markupsafe import Markup

from analysis.report.shading import Measure, ShownTokens
from analysis.report.viewer import load_view
from warehouse.errors import TokenmartError, visible
from warehouse.options import problem_or_newest
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem
from warehouse.sql.dataframes import query

SHOWN_CHARACTERS = 3000

_CONTENTS = """
    select
        problem,
        count(distinct model_id) as models,
        count(distinct doc_id) as documents,
        sum(tokens_scored)::bigint as tokens
    from units
    where status = 'done'
    group by problem
    order by problem
"""


@dataclass(frozen=True)
class OpenedWorkspace:
    """A workspace and, for each problem, the numbers of models, documents and scored tokens."""

    root: Path
    problems: list[dict[str, Any]]

    def _repr_html_(self) -> str:
        row = Markup(
            "<tr><td>{problem}</td><td>{models}</td><td>{documents}</td><td>{tokens:,}</td></tr>"
        )
        head = "<tr><th>problem</th><th>models</th><th>documents</th><th>tokens scored</th></tr>"
        body = "".join(row.format(**problem) for problem in self.problems)
        return Markup("<p>{}</p><table>{}{}</table>").format(self.root, Markup(head), Markup(body))

    def __repr__(self) -> str:
        lines = [
            f"{p['problem']}: {p['models']} models, {p['documents']} documents, "
            f"{p['tokens']:,} tokens scored"
            for p in self.problems
        ]
        return "\n".join(map(visible, [str(self.root), *lines]))


def open(folder: str | Path | None = None) -> OpenedWorkspace:
    """Choose the workspace that the other functions read, and list what it contains.

    Args:
        folder: a workspace; None for the one that `$TOKENMART_HOME` names, or else the one around
            the current folder.

    Raises:
        TokenmartError: there is no workspace.
        StorageError: a file is damaged.
    """
    if folder is not None:
        os.environ["TOKENMART_HOME"] = str(Path(folder).resolve())
    return OpenedWorkspace(find_workspace().root, query(_CONTENTS).to_pylist())


def show(
    document: str | int,
    model: str,
    other: str | None = None,
    *,
    problem: str | None = None,
    measure: Measure = "logprob",
    condition: str | None = None,
    start: int = 0,
    characters: int | None = SHOWN_CHARACTERS,
) -> ShownTokens:
    """Show a document with every token shaded, for one model or two side by side.

    Args:
        document: id or name.
        model: its id, full id or the end of it.
        other: a second model.
        problem: name or path of a problem file; None for the problem that was extracted last.
        measure: what the shading shows: `logprob`, `gain` (of the context before a window) or
            `rank`.
        condition: window condition that the gain is relative to; None for the first.
        start: first character.
        characters: how many; None for all.

    Raises:
        TokenmartError: no such problem, document, model or measure, or nothing was extracted.
    """
    if measure not in get_args(Measure):
        raise TokenmartError(
            f"measure {measure!r}: use {', '.join(get_args(Measure))}",
            code="unknown-measure",
            where="measure",
        )
    workspace = find_workspace()
    chosen = load_problem(problem_or_newest(problem, workspace), workspace)
    models = [model] if other is None else [model, other]
    view = load_view(chosen, workspace, str(document), models, start, characters, condition)
    return ShownTokens(view, measure)
