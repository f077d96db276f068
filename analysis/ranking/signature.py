"""The signature of a value: one line that names everything the value was made from.

tokenmart 0.2.0 | no4k:ab12cd34 | retrieval_gain/mean@retrieval:9f3e | 17 models:77aa | bf16, flash

Its parts: version; problem, with the hash of the state that the database was built from; metric,
with the hash of its definition; models with a target score, with the hash of their values and
scores; number formats and attention implementations. A part that is unknown is `?`.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING

from analysis.ranking.loading import load_table
from warehouse.errors import TokenmartError
from warehouse.problem.spec import load_ranked

if TYPE_CHECKING:
    from analysis.ranking.metric_table import MetricColumn, MetricTable
    from warehouse.paths import Workspace
    from warehouse.sql.problem_state import BuildState

PARTS = ("version", "problem's state", "metric's definition", "models' values", "number formats")
"""In the order of the line."""

_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def signature(table: MetricTable, column: MetricColumn) -> str:
    """The line of a metric's values and of all numbers that are computed from them."""
    values = [
        f"{model.model_id} {value:.10g} {score:.10g}"
        for model, value, score in zip(table.models, column.values, table.target, strict=True)
    ]
    files = {
        path: md5
        for path, md5 in (table.state.built.parts if table.state.built else {}).items()
        if path.endswith(f"/{column.metric}.sql")
    }
    # an idea's formula is its definition; a metric's is a description
    formula = column.formula if column.kind != "variant" else ""
    defined = [column.direction, column.kind, formula, column.parameters, files]
    computed = [*(_SHORT.get(each, each) for each in table.dtypes), *table.attention]
    return " | ".join(
        [
            signature_of_problem(table.problem, table.state),
            f"{column.name}:{_hash(json.dumps(defined, sort_keys=True), 4)}",
            f"{len(table.models)} models:{_hash(chr(10).join(sorted(values)), 4)}",
            ", ".join(computed) or "scores made elsewhere",
        ]
    )


def signature_of_problem(problem: str, state: BuildState) -> str:
    """The first two parts of a signature, for what is computed from all metrics of a problem."""
    built = "?" if state.built is None else state.built.sha256[:8]
    return f"tokenmart {version('tokenmart')} | {problem}:{built}"


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def compare_signature(workspace: Workspace, line: str) -> list[tuple[str, str, str]]:
    """Compute the signature of the line's metric in this workspace.

    Returns:
        (part, in the line, here) of each part.

    Raises:
        TokenmartError: the line is no signature, or the problem or metric isn't here.
    """
    given = [" ".join(part.split()) for part in line.split("|")]
    if len(given) != len(PARTS) or not all(":" in part for part in given[1:4]):
        raise TokenmartError(
            f"{line!r}: no signature; it has {len(PARTS)} parts, such as 'tokenmart 0.2.0 | "
            "no4k:ab12cd34 | retrieval_gain/mean@retrieval:9f3e | 17 models:77aa | bf16, sdpa'",
            code="no-signature",
            where="LINE",
        )
    problem, name = (part.rpartition(":")[0] for part in given[1:3])
    table = load_table(load_ranked(problem, workspace), workspace)
    column = next((each for each in table.everything if each.name == name), None)
    if column is None:
        raise TokenmartError(
            f"{name}: this workspace has no such metric of {problem}; build it, or correlate the "
            "idea again",
            code="unknown-metric",
            where=name,
        )
    here = signature(table, column).split(" | ")
    return list(zip(PARTS, given, here, strict=True))
