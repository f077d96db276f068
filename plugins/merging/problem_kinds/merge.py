"""Problem files of kind `merge`, which no command of the core uses."""

from __future__ import annotations

from plugins.merging.problem import MergeProblem
from warehouse.problem.problem_files import ProblemKind


class MergeKind(ProblemKind):
    """Models to merge."""

    kind = "merge"
    keys = MergeProblem
    purpose = (
        "models to merge (kind: merge), nothing to extract; use it with `tokenmart merge` and "
        "`tokenmart rank`"
    )
