"""The record of what was tried: nothing is lost, nothing counts twice."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from warehouse.errors import StorageError
from warehouse.metrics.tries import Try, remember, tries
from warehouse.paths import Workspace

VARIANT = Try("perplexity", "micro", "variant", '{"formula": "f"}', "lower", {"a": 1.5, "b": 2.0})
IDEA = Try("mine", "x", "sql", "select 1", "higher", {"a": 0.1, "b": math.nan})


def test_what_is_remembered_is_found_with_the_values_it_had_last(workspace: Workspace) -> None:
    assert tries(workspace, "p") == []
    remember(workspace, "p", [VARIANT, IDEA])
    (first, idea) = tries(workspace, "p")
    assert first == replace(VARIANT, first_seen=first.first_seen, last_seen=first.first_seen)
    assert idea.values == {"a": 0.1}
    moved = replace(VARIANT, values={"a": 1.25, "b": 2.0})
    remember(workspace, "p", [moved, IDEA])
    (again, same) = tries(workspace, "p")
    assert again.values == moved.values and same == idea
    assert again.first_seen == first.first_seen < again.last_seen
    assert tries(workspace, "q") == []


def test_the_same_again_writes_nothing_and_another_name_is_no_other_idea(
    workspace: Workspace,
) -> None:
    remember(workspace, "p", [VARIANT, IDEA])
    remember(workspace, "p", [IDEA, VARIANT, replace(IDEA, metric="other_name")])
    assert len(list((workspace.data / "tries" / "p").iterdir())) == 1
    remember(workspace, "p", [replace(IDEA, definition="select 2")])
    remember(workspace, "p", [replace(VARIANT, definition='{"formula": "g"}')])
    assert len(tries(workspace, "p")) == 4


def test_a_damaged_record_is_named_not_left_out(workspace: Workspace) -> None:
    remember(workspace, "p", [VARIANT])
    (path,) = (workspace.data / "tries" / "p").iterdir()
    for text in ("{", '{"seen": "x", "tries": [{"metric": "m"}]}', "[]"):
        path.write_text(text)
        with pytest.raises(StorageError, match=r"tried is damaged .*restore it") as error:
            tries(workspace, "p")
        assert str(path) in error.value.message
