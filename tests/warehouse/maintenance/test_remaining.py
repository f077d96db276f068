"""What is missing for a submission, and for how long: counted and timed by the ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sql_samples import tokens, unit

from warehouse.maintenance.remaining import remaining
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem, load_problem
from warehouse.store.ledger import with_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import published_path

ROOT = Path(__file__).parents[3]
MODEL = "smollm2-135m"


@pytest.fixture
def problem(workspace: Workspace) -> Problem:
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", workspace.problems)
    return load_problem("minilong", workspace)


def write(workspace: Workspace, condition: str, document_tokens: int, seconds: float) -> None:
    """Two documents of 5,000 tokens, of which the problem takes 4,096."""
    units = [
        unit(
            MODEL,
            condition,
            1,
            doc_id=number,
            document_tokens=document_tokens,
            document_tokens_total=5000,
            seconds=seconds,
        )
        for number in range(2)
    ]
    rows = tokens([-1.0], [0], [0]).cast(with_units(TOKENS, units))
    write_table(published_path(workspace, "minilong", MODEL, condition), rows)


def test_before_anything_ran_time_is_unknown(workspace: Workspace, problem: Problem) -> None:
    left = remaining(problem, workspace)
    assert (left.missing, left.units, left.models, left.seconds) == (4600, 4600, 23, None)
    assert "4,600 of 4,600 units" in str(left)
    assert "a time that is unknown" in str(left)


def test_units_of_a_demo_are_missing_and_say_how_fast_it_goes(
    workspace: Workspace, problem: Problem
) -> None:
    conditions = [c.name for probe in problem.probes for c in probe.conditions()]
    assert len(conditions) == 4
    for condition in conditions:
        write(workspace, condition, 1024, 2.0)
    left = remaining(problem, workspace)
    assert left.missing == 4600
    # 2 s for 1,024 tokens, so 8 s for 4,096: 4,600 times
    assert left.seconds == pytest.approx(4600 * 8)
    assert "for about 10.2 h" in str(left)
    for condition in conditions:
        write(workspace, condition, 4096, 2.0)
    left = remaining(problem, workspace)
    assert left.missing == 4600 - 2 * 4
    assert left.seconds == pytest.approx(4592 * 2)
