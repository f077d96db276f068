"""Records in the data folder that were damaged: one line, or made again; never a traceback."""

from __future__ import annotations

import pytest

from warehouse.errors import StorageError
from warehouse.files import cached
from warehouse.metrics.tested_metrics import MetricRecord, record_metrics
from warehouse.paths import Workspace

pytestmark = pytest.mark.hostile
DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, "", "{"])
def test_a_damaged_memory_of_hashes_is_made_again(workspace: Workspace, text: str) -> None:
    workspace.cache.mkdir(parents=True)
    (workspace.cache / "hashes.json").write_text(text)
    assert cached("key", lambda: "hash", workspace) == "hash"
    assert cached("key", lambda: "another", workspace) == "hash"


@pytest.mark.parametrize("text", [DEEP, "{"])
def test_a_damaged_record_of_metrics_tested_is_named(workspace: Workspace, text: str) -> None:
    row = MetricRecord("idea", "a", "values", "sha256 0", {"m": 1.0})
    record_metrics(workspace, "p", [row])
    (path,) = workspace.data.rglob("*p.json")
    path.write_text(text)
    with pytest.raises(StorageError, match=r"can't be read .*restore it from a backup"):
        record_metrics(workspace, "p", [row])
