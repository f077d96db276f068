"""Units of benchmarks whose task has changed, and answers of models that are no longer asked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from plugins.benchmarks.harness.stored_items import eval_store, requested_units
from warehouse.maintenance.garbage import (
    NO_MODEL,
    Garbage,
    Superseded,
    bytes_of,
    superseded_units,
)
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import partition_keys


class BenchmarkData(Superseded):
    """Requests, answers and scores of benchmarks."""

    kind = "benchmarks"

    def find(self, workspace: Workspace, problem: Problem) -> Iterator[Garbage]:
        """Units, then files of answers and scores."""
        models = {model.model_id for model in problem.models}

        @cache
        def requests(condition: str) -> dict[int, str] | None:
            return requested_units(workspace, problem.name, condition)

        def why(unit: UnitRecord) -> str:
            if unit.model_id not in models:
                return NO_MODEL
            asked = requests(unit.condition)
            # requests that can't be read may be the unit's own: `data check` is for them
            same = asked is None or asked.get(unit.doc_id) == unit.document_sha256
            return "" if same else "the task has changed since"

        yield from superseded_units(eval_store(workspace), problem.name, why)
        for what in ("answers", "scores"):
            files = f"problem={problem.name}/model_id=*/condition=*/{what}.parquet"
            for path in sorted((workspace.store / f"eval_{what}").glob(files)):
                if partition_keys(path.parent)[1] not in models:
                    yield Garbage(what, path, 0, bytes_of(path), NO_MODEL)
