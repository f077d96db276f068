"""`tm.open`: a workspace and what it contains, displayed by a notebook."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from warehouse.errors import visible
from warehouse.paths import find_workspace
from warehouse.sql.dataframes import query

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
