"""The target of a problem: scores by model, measured or from a locked file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warehouse.errors import TokenmartError

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked


def load_target(problem: Ranked, workspace: Workspace) -> tuple[dict[str, float], dict[str, Any]]:
    """Target scores by model_id, and where they came from.

    Raises:
        TokenmartError: the problem has no target.
        LockedFileError: the target file is missing, malformed or changed.
    """
    if problem.target is None:
        raise TokenmartError(
            f"problem {problem.name} has no target: nothing to correlate with; add a target "
            "section to its problem file (`tokenmart sql` and `tokenmart extract` need none)"
        )
    from warehouse.problem.spec import FileTarget

    if isinstance(problem.target, FileTarget):
        from warehouse.problem.target_file import read_locked_target

        models = [spec.full_id for spec in problem.ranked_models]
        target = read_locked_target(
            workspace,
            problem.name,
            problem.target.path,
            models,
            asked=problem.asked,
            some=True,
        )
        scores = {
            spec.model_id: target.scores[spec.full_id]
            for spec in problem.ranked_models
            if spec.full_id in target.scores
        }
        path = problem.target.path.as_posix()
        return scores, {"kind": "file", "path": path, "sha256": target.sha256}
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, score, stderr, items from downstream_scores"
            " where problem = ? and model_id in ? and task = 'overall' and score is not null",
            [problem.name, [model.model_id for model in problem.ranked_models]],
        ).fetchall()
    source = {
        "kind": problem.target.kind,
        "sha256": _scores_sha256(rows),
        "items_per_model": {row[0]: row[3] for row in rows},
        "stderr": {row[0]: row[2] for row in rows},
    }
    return {row[0]: float(row[1]) for row in rows}, source


def _scores_sha256(rows: Sequence[tuple[Any, ...]]) -> str:
    """One hash over measured scores, so that a second measurement doesn't go unnoticed."""
    lines = "".join(f"{row[0]} {float(row[1]):.12g}\n" for row in sorted(rows))
    return hashlib.sha256(lines.encode()).hexdigest()
