"""Predictions of a merged model for the items of a kit's CSV, from the rows of `eval`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from plugins.benchmarks.model_sql import ModelSql
from plugins.merging.evaluate import Round, evaluate
from plugins.merging.kit.kit_files import CHOICE, KitItem, task_names, write_kit_tasks
from plugins.merging.make import Plan
from plugins.merging.watchdog import Cost
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet

_CHOSEN = """
    select item, arg_max(choice, (loglikelihood, -choice))
    from {requests}
    where problem = $problem and model_id = $model and condition = $condition
        and not unconditional
    group by item
"""
_WRITTEN = """
    select item, any_value(answer)
    from {answered}
    where problem = $problem and model_id = $model and condition = $condition and filter = 'none'
    group by item
"""


def predict(
    plan: Plan,
    kit: Path,
    items: Sequence[KitItem],
    workspace: Workspace,
    device: str,
    max_tokens: int,
) -> tuple[dict[str, str], Cost]:
    """Id of each item → the index of the choice with the largest log-likelihood, or the text.

    Stored answers are not computed again.

    Args:
        plan: the merge.
        kit: the CSV.
        items: its items.
        workspace: the checkout whose data folder has the rows.
        device: auto, cpu or cuda.
        max_tokens: maximum number of generated tokens.

    Raises:
        OverLimitError: the problem's limits were exceeded; finished units are kept.
        TokenmartError: the evaluation failed.
    """
    with tempfile.TemporaryDirectory(prefix="tokenmart-kit-") as scratch:
        folder = Path(scratch)
        names = write_kit_tasks(kit, folder, max_tokens)
        round_ = Round.of_tasks("kit", 0, list(names.values()), [folder])
        cost = evaluate(plan, round_, workspace, device)
    conditions = {task.name: task.condition for task in round_.tasks}
    found: dict[str, str] = {}
    with connect_to_parquet(workspace) as database:
        models = ModelSql(database, workspace)
        for kind, name in task_names(kit, items).items():
            sql = (
                _CHOSEN.format(requests=models.build("int_eval_requests"))
                if kind == CHOICE
                else _WRITTEN.format(answered=models.build("int_eval_answered"))
            )
            key = {"problem": plan.problem.name, "model": plan.merge.name}
            rows = database.execute(sql, key | {"condition": conditions[name]}).fetchall()
            asked = [item for item in items if item.kind == kind]
            for place, answer in rows:
                found[asked[place].id] = str(answer) if kind == CHOICE else str(answer or "")
    return found, cost
