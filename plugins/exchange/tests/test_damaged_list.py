"""A damaged list of attached bundles is one line."""

from __future__ import annotations

import pytest

from plugins.exchange.attached import attached
from warehouse.errors import StorageError
from warehouse.paths import Workspace

pytestmark = pytest.mark.hostile
DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, "", "{", '[{"name": 1}]'])
def test_a_damaged_list_of_bundles_is_named(workspace: Workspace, text: str) -> None:
    path = workspace.data / "attached.json"
    path.write_text(text)
    with pytest.raises(StorageError, match=rf"{path}: can't be read .*; delete it and attach"):
        attached(workspace)
