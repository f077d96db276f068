"""The models of a problem file, stored and seen in SQL."""

from __future__ import annotations

import duckdb

from warehouse.problem.spec import load_problem
from warehouse.problem.tables import store_lineup
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


def test_the_ranked_checkpoints_of_a_problem_are_a_table(workspace):
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    store_lineup(load_problem("tiny", workspace), workspace)
    with duckdb.connect() as connection:
        create_views(connection, workspace)
        rows = connection.execute("from lineup order by all").fetchall()
    assert rows == [("tiny", "org--base", 7), ("tiny", "org--unknown", None)]
    path = workspace.data / "lineup" / "problem=tiny" / "lineup.parquet"
    written = path.stat().st_mtime_ns
    store_lineup(load_problem("tiny", workspace), workspace)
    assert path.stat().st_mtime_ns == written
