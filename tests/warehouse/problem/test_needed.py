"""The models of a problem file, stored and seen in SQL."""

from __future__ import annotations

import duckdb

from warehouse.problem.needed import store_needed
from warehouse.problem.spec import load_problem
from warehouse.sql.views import create_views

PROBLEM = """\
name: tiny
title: A tiny problem
documents: {kind: json, path: docs.json}
models:
  - {full_id: org/base, family: one, parameters: 7, source: {kind: local, path: base}}
  - {full_id: org/unknown, family: one, source: {kind: local, path: unknown}}
  - {full_id: org/asked-for, family: one, on_request: true, source: {kind: local, path: other}}
  - {full_id: cut, base: org/base, interventions: [{kind: drop_layers, layers: [-1]}]}
probes: [{kind: full}]
"""


def test_what_a_problem_file_asks_for_is_a_table(workspace):
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    store_needed(load_problem("tiny", workspace), workspace)
    with duckdb.connect() as connection:
        create_views(connection, workspace)
        rows = connection.execute(
            "select model_id, is_ranked, base_id, parameters, model_sha256, condition, probe_params"
            " from needed order by all"
        ).fetchall()
    full = (None, "full", "{}")
    assert rows == [
        ("cut", True, "org--base", 7, *full),
        ("org--asked-for", False, None, None, *full),
        ("org--base", True, None, 7, *full),
        ("org--unknown", True, None, None, *full),
    ]
    path = workspace.data / "needed" / "problem=tiny" / "needed.parquet"
    written = path.stat().st_mtime_ns
    store_needed(load_problem("tiny", workspace), workspace)
    assert path.stat().st_mtime_ns == written
