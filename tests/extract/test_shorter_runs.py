"""Finished work is never replaced by less, unless --force says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusal import refuses
from tiny_models import PROBES
from tiny_runs import everything, ok, run

from extract.planning.plan import documents_of, plan_model
from extract.planning.selection import select
from extract.planning.shorter_runs import refuse_fewer_rows
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import finished_units

KEYS = ("tiny", "tiny--one")


def units_of(workspace: Workspace, condition: str = "full") -> dict[int, UnitRecord]:
    return finished_units(workspace, *KEYS, condition)


def rows_of(workspace: Workspace) -> dict[str, int]:
    return {name: table.num_rows for name, table in everything(workspace).items()}


def test_fewer_tokens_on_the_command_line_leave_finished_units(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    ok(run(path))
    before, rows = units_of(workspace), rows_of(workspace)
    again = ok(run(path, "--max-tokens", "60"))
    assert "extracted 0 units" in again and "16 finished units" in again
    assert (units_of(workspace), rows_of(workspace)) == (before, rows)
    forced = ok(run(path, "--max-tokens", "60", "--force"))
    assert "extracted 16 units" in forced
    assert {unit.document_tokens for unit in units_of(workspace).values()} == {60}
    # and more replaces less without a word
    assert "extracted 16 units" in ok(run(path))
    assert (rows_of(workspace)) == rows


def test_between_two_cuts_the_longer_one_stays(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    ok(run(path, "--max-tokens", "120"))
    assert "extracted 0 units" in ok(run(path, "--max-tokens", "60"))
    assert {unit.document_tokens for unit in units_of(workspace).values()} == {120}


def test_units_that_are_missing_are_scored_beside_longer_ones(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=3)
    ok(run(path, "--documents", "1", "--model", "tiny/one"))
    assert "extracted 20 units" in ok(run(path, "--max-tokens", "60"))
    tokens = {n: unit.document_tokens for n, unit in units_of(workspace).items()}
    assert tokens[0] > 60 and tokens[1] == tokens[2] == 60


@pytest.mark.parametrize(
    ("options", "file"),
    [
        (("--max-tokens", "60", "--dtype", "bfloat16"), {}),
        (("--max-tokens", "60", "--attention", "eager"), {}),
        ((), {"max_tokens": 60}),
    ],
)
def test_other_settings_on_fewer_tokens_are_refused(
    options: tuple[str, ...],
    file: dict[str, Any],
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
) -> None:
    ok(run(tiny_problem(texts=2)))
    rows = rows_of(workspace)
    path = tiny_problem(texts=2, documents={"kind": "json", "path": "data/corpus.json", **file})
    assert run(path, *options).exit_code == 5
    assert rows_of(workspace) == rows
    problem = load_problem("tiny", workspace)
    names = [option.removeprefix("--").replace("-", "_") for option in options[::2]]
    chosen: dict[str, Any] = dict(zip(names, options[1::2], strict=True))
    if "max_tokens" in chosen:
        chosen["max_tokens"] = int(chosen["max_tokens"])
    selection = select(problem, workspace, device="cpu", **{"dtype": "auto", **chosen})
    documents = documents_of(ensure_documents(problem, workspace), None)
    with refuses("shorter-run", "tiny/one"):
        plan_model(selection, problem.models[0], documents)
    assert "extracted 16 units" in ok(run(path, *options, "--force"))


def test_a_failure_leaves_what_other_settings_gave(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from extract.scoring.engine import Engine

    path = tiny_problem(texts=2, probes=PROBES[:1])
    ok(run(path))
    before, rows = units_of(workspace), rows_of(workspace)

    def failing(*_: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(Engine, "score", failing)
    assert run(path, "--dtype", "bfloat16").exit_code == 5
    assert (units_of(workspace), rows_of(workspace)) == (before, rows)


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        ({"documents": {"kind": "json", "path": "data/corpus.json", "max_characters": 200}}, "0"),
        ({"probes": [PROBES[0], PROBES[1] | {"context": 40}, *PROBES[2:]]}, "window_24"),
        ({"probes": [*PROBES[:2], PROBES[2] | {"answer_tokens": 4}]}, "retrieval_with"),
    ],
)
def test_smaller_limits_in_the_problem_file_leave_finished_units(
    sections: dict[str, Any],
    where: str,
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
) -> None:
    """Text cut shorter, and probes that score fewer tokens of it under the same name."""
    ok(run(tiny_problem(texts=2)))
    before, rows = units_of(workspace), rows_of(workspace)
    path = tiny_problem(texts=2, **sections)
    problem = load_problem("tiny", workspace)
    with refuses("shorter-run", where):
        documents = documents_of(ensure_documents(problem, workspace), None)
        selection = select(problem, workspace, device="cpu", dtype="auto")
        plan = plan_model(selection, problem.models[0], documents)
        refuse_fewer_rows(plan, {each.doc_id: plan.tokenize(each) for each in documents})
    assert run(path).exit_code != 0
    assert (units_of(workspace), rows_of(workspace)) == (before, rows)
    ok(run(path, "--force"))
    assert rows_of(workspace) != rows
    # and back: more replaces less
    ok(run(tiny_problem(texts=2)))
    assert rows_of(workspace) == rows


def test_top_k_tokens_are_not_dropped_by_a_run_without(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=1, probes=PROBES[:1])
    ok(run(path, "--top-k", "3"))
    problem = load_problem("tiny", workspace)
    documents = documents_of(ensure_documents(problem, workspace), None)
    selection = select(problem, workspace, device="cpu", dtype="bfloat16")
    with refuses("shorter-run", "tiny/one"):
        plan_model(selection, problem.models[0], documents)
    assert plan_model(replace(selection, force=True), problem.models[0], documents).tasks
    more = select(problem, workspace, device="cpu", dtype="bfloat16", top_k=3)
    assert plan_model(more, problem.models[0], documents).tasks
