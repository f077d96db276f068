"""Whether a submission is official: one to the shipped locked problem, changed in nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.preregistration.definition import set_keys, text_hashes
from analysis.submission import verifier as locked
from warehouse.paths import shipped_folder, workspace_of
from warehouse.plugins import foreign_plugins
from warehouse.problem.needed import all_conditions
from warehouse.problem.problem_files import parse_yaml
from warehouse.problem.spec import checked_problem
from warehouse.problem.unit_states import stored_texts
from warehouse.terminal import counted

if TYPE_CHECKING:
    from analysis.ranking.metric_table import MetricColumn
    from warehouse.metrics.manifest import Lineage
    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem


def why_unofficial(
    workspace: Workspace,
    problem: Problem,
    column: MetricColumn,
    lineage: Lineage,
    units: Sequence[Mapping[str, Any]],
    code: Mapping[str, Any],
) -> list[str]:
    """The rules of an official submission that don't hold; empty for an official one.

    Args:
        workspace: with the problem's texts and the dbt project.
        problem: compared with the locked problem that ships with this code.
        column, lineage: of the metric.
        units: rows of the ledger.
        code: from `code_revision`.
    """
    shipped_workspace = workspace_of(shipped_folder())
    shipped = checked_problem(
        parse_yaml(shipped_workspace.problems / f"{locked.PROBLEM}.yml"), shipped_workspace
    )
    stored = stored_texts(problem, workspace) or {}
    cut = sum(
        unit["status"] == "done" and unit["document_tokens"] < unit["document_tokens_total"]
        for unit in units
    )
    plugins = foreign_plugins()
    rules = {
        f"the problem is {problem.name}, not {locked.PROBLEM}": problem.name == locked.PROBLEM,
        "its models are not the 17 locked ones": _models(problem) == _models(shipped),
        "its documents are not the locked ones": set_keys(problem.documents)
        == set_keys(shipped.documents),
        "its texts are not those of the documents file": [text.sha256 for text in stored.values()]
        == text_hashes(workspace, problem),
        "its probes are not those of the locked problem": _conditions(problem)
        == _conditions(shipped),
        "its target is not the locked file": problem.target is not None
        and shipped.target is not None
        and set_keys(problem.target) == set_keys(shipped.target),
        f"{counted(cut, 'unit')} read a part of the document only": not cut,
        "the metric needs more than the model and the proxy text": column.admissible,
        "it is not SQL over the store": not lineage.foreign,
        "its SQL is not that of this code": _sql(workspace.root) == _sql(shipped_workspace.root),
        "the code has local changes, or no known revision": code["dirty"] is False,
        "units were computed by code with local changes": not any(
            unit["code_dirty"] for unit in units
        ),
        f"plugins from elsewhere are loaded: {', '.join(plugins)}": not plugins,
    }
    return [why for why, holds in rules.items() if not holds]


def _models(problem: Problem) -> list[dict[str, Any]]:
    return sorted(map(set_keys, problem.ranked_models), key=lambda model: str(model["full_id"]))


def _conditions(problem: Problem) -> list[Any]:
    conditions = [[c.name, c.kind.name, c.params, c.reference] for c in all_conditions(problem)]
    return [*sorted(conditions, key=str), problem.compare]


def _sql(root: Path) -> dict[str, bytes]:
    """Content of the SQL files of the dbt project and the plugins, by path."""
    files = [
        *(root / "dbt_project").glob("m*/**/*.sql"),
        *root.glob("plugins/*/dbt/**/*.sql"),
        root / "dbt_project" / "dbt_project.yml",
    ]
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}
