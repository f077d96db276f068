"""Pairs of conditions that a problem file declares: refused, stored and seen in SQL."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.problem.needed import store_needed
from warehouse.problem.spec import load_problem
from warehouse.sql.views import create_views

PROBLEM = """\
name: tiny
title: A tiny problem
documents: {kind: json, path: docs.json}
models: [{full_id: org/base, family: one, source: {kind: local, path: base}}]
probes:
  - {kind: full}
  - {kind: window, name: window_8, context: 8, stride: 4}
  - {kind: ladder, contexts: [8, 16], targets: 4}
  - {kind: needle}
"""


def load(workspace: Workspace, more: str):
    (workspace.problems / "tiny.yml").write_text(PROBLEM + more)
    return load_problem("tiny", workspace)


def stored(workspace: Workspace) -> list[tuple[str, ...]]:
    with duckdb.connect() as connection:
        create_views(connection, workspace)
        return connection.execute(
            "select problem, condition, unnest(compared_with) from needed order by all"
        ).fetchall()


def test_declared_pairs_are_a_table(workspace):
    pairs = "compare: [[full, ladder_8], [ladder_16, ladder_8]]\n"
    store_needed(load(workspace, pairs), workspace)
    assert stored(workspace) == [("tiny", "full", "ladder_8"), ("tiny", "ladder_16", "ladder_8")]
    # what is no longer declared is gone
    store_needed(load(workspace, ""), workspace)
    assert stored(workspace) == []


def test_the_example_of_the_documentation_is_a_problem(workspace):
    page = (Path(__file__).parents[3] / "docs" / "how_to" / "probes.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    head = PROBLEM[: PROBLEM.index("probes:")]
    (workspace.problems / "tiny.yml").write_text(head + example)
    problem = load_problem("tiny", workspace)
    made = {condition.name for probe in problem.probes for condition in probe.conditions()}
    assert {"retrieval_tail", "retrieval_with", "ladder_16384", "needle_absent"} <= made
    assert problem.compare == (
        ("full", "ladder_2048"),
        ("ladder_16384", "ladder_512"),
        ("full", "far_shuffled"),
        ("full", "far_foreign"),
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("compare: [[full, ladder_9]]\n", 10),
        ("compare: [[full, window_8]]\n", 10),
        ("compare: [[full, full]]\n", 10),
        ("compare: [[full, ladder_8], [full, ladder_8]]\n", 10),
        ("compare: [[needle_absent, needle_present]]\n", 10),
        # two probes make one condition
        ("  - {kind: window, name: ladder_8, context: 8, stride: 4}\n", 5),
    ],
)
def test_pairs_that_can_not_be_compared_are_refused(workspace, more, line):
    with pytest.raises(ProblemFileError) as refused:
        load(workspace, more)
    where = f"{workspace.problems / 'tiny.yml'}:{line}"
    assert (refused.value.code, refused.value.where) == ("value-error", where)
