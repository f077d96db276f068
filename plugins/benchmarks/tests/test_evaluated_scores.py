"""Scores of `tokenmart eval` as a plain table, and a task's items cut to the chosen ones."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from plugins.benchmarks.items.chosen_lines import chosen_lines
from plugins.benchmarks.scores.evaluated_scores import evaluated_scores
from plugins.benchmarks.scores.score_table import read_scores
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

PROBLEM = """\
name: runs
title: t
models:
  - {full_id: org/m-step1000, family: m, source: {kind: hub, repository: org/m, revision: step1000}}
  - {full_id: org/m-step2000, family: m, source: {kind: hub, repository: org/m, revision: step2000}}
  - {full_id: org/n, family: n, source: {kind: hub, revision: stage1-step5000-tokens21B}}
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
"""


def collected(*words: str) -> Result:
    return CliRunner().invoke(cli, ["e2lm", "collect", *words])


@pytest.fixture
def built(workspace: Workspace) -> Workspace:
    """What dbt makes of two benchmarks on three checkpoints, as far as the command reads it."""
    (workspace.problems / "runs.yml").write_text(PROBLEM)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute(
            """
            create table eval_metric_catalog as
                select * from (values ('acc', 'higher'), ('gold_rank', 'lower')) t(metric, better);
            create table stg_eval_scores as
                select * from (values ('runs', 'own_loss', 'lower')) t(problem, metric, better);
            create table eval_metrics as select * from (values
                ('runs', 'org--m-step1000', 'qa-0shot', 'all', 'acc', 'none', 0.25, 0.1, null),
                ('runs', 'org--m-step2000', 'qa-0shot', 'all', 'acc', 'none', 0.5, 0.1, null),
                ('runs', 'org--m-step2000', 'qa-0shot', 'length', 'acc', 'none', 0.9, 0.1, null),
                ('runs', 'org--n', 'qa-0shot', 'all', 'own_loss', 'strict', 2.5, null, null),
                ('runs', 'org--n', 'exams', 'all', 'gold_rank', 'none', 1.5, null, null),
                ('runs', 'org--n', 'exams', 'all', 'acc', 'none', null, null, '1 of 2 tasks'),
                ('other', 'org--n', 'exams', 'all', 'acc', 'none', 0.1, null, null)
            ) t(problem, model_id, condition, part, metric, filter, value, stderr, reason)
            """
        )
    return workspace


def test_evaluations_become_a_table_that_is_read(built: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    done = collected("--problem", "runs", "--out", str(out))
    assert done.exit_code == 0, done.output
    columns = ("full_id", "step", "tokens", "benchmark", "metric", "direction", "score", "stderr")
    n = "org/n,revision=stage1"
    assert [tuple(row[name] for name in columns) for row in read_scores(out).to_pylist()] == [
        (n, 5000, 21e9, "exams", "gold_rank", "lower", 1.5, None),
        ("org/m", 1000, None, "qa-0shot", "acc", "higher", 0.25, 0.1),
        ("org/m", 2000, None, "qa-0shot", "acc", "higher", 0.5, 0.1),
        (n, 5000, 21e9, "qa-0shot", "own_loss,strict", "lower", 2.5, None),
    ]


def test_what_is_missing_is_refused_by_a_code(built: Workspace, tmp_path: Path) -> None:
    (built.problems / "none.yml").write_text(PROBLEM.replace("name: runs", "name: none"))
    for problem, code in (("none", "no-score"), ("runs", "not-built")):
        if problem == "runs":
            with duckdb.connect(str(built.database)) as connection:
                connection.execute("drop table eval_metrics")
        with pytest.raises(TokenmartError) as caught:
            evaluated_scores(problem, built)
        assert caught.value.code == code
    out = ["--out", str(tmp_path / "x.csv")]
    assert collected(*out).exit_code == 2 and collected("--problem", "runs", "x").exit_code == 2


def test_chosen_items_keep_their_lines_and_order(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_bytes("\ufeff".encode() + b'{"q": "a\\u2028"}\r\n\n{"q": "b"}\r\n{"q":  "c"}')
    assert chosen_lines(path, ["2", 0]) == '{"q": "a\\u2028"}\n{"q":  "c"}\n'
    for item in (3, "task/1", "-1", "٣"):
        with pytest.raises(TokenmartError) as caught:
            chosen_lines(path, [item])
        assert (caught.value.code, caught.value.where) == ("no-line", str(path))
