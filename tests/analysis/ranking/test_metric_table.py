"""Reading the marts and the target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.ranking.loading import load_table, load_target, record_tested
from warehouse.errors import LockedFileError, StorageError, TokenmartError
from warehouse.metrics.tested_metrics import recorded_metrics
from warehouse.problem.spec import load_problem


def table(marts, problem="minilong"):
    return load_table(load_problem(problem, marts.workspace), marts.workspace)


def test_columns_are_oriented_and_missing_values_are_nan(minilong):
    found = table(minilong)
    assert len(found.models) == 23
    perplexity = found.column("perplexity")
    np.testing.assert_allclose(perplexity.oriented, -perplexity.values, rtol=1e-10)
    partly = found.column("partly/a")
    assert math.isnan(partly.values[0]) and partly.present.sum() == 22
    assert partly.parameters == {"k": 1}
    assert found.families.count("smollm2") == 19
    assert found.log_parameters[0] == pytest.approx(math.log(134515008))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ppl", "unknown-metric"), ("noise", "several-variants"), ("noise/v9", "unknown-variant"),
    ],
)  # fmt: skip
def test_asking_for_a_metric_that_is_not_there(minilong, name, code):
    with pytest.raises(TokenmartError) as failed:
        table(minilong).column(name)
    assert (failed.value.code, failed.value.where) == (code, name)


def error_of(marts, problem=None) -> tuple[str, str]:
    with pytest.raises(TokenmartError) as failed:
        load_table(problem or load_problem("minilong", marts.workspace), marts.workspace)
    return failed.value.code, failed.value.where


def test_a_database_of_another_version_is_to_be_built_again(minilong):
    with minilong.write() as connection:
        connection.execute("alter table metric_catalog rename is_admissible to admissible")
    with pytest.raises(StorageError, match="tokenmart dbt run") as failed:
        table(minilong)
    assert len(str(failed.value).splitlines()) == 1


def test_what_a_table_needs(minilong):
    problem = load_problem("minilong", minilong.workspace)
    assert error_of(minilong, problem.model_copy(update={"target": None})) == (
        "no-target",
        "minilong",
    )
    with minilong.write() as connection:
        connection.execute("delete from metric_catalog where metric = 'good'")
    assert error_of(minilong) == ("undescribed-metric", "good/a")
    with minilong.write() as connection:
        connection.execute("delete from metric_values")
    assert error_of(minilong) == ("nothing-built", "metric_values")
    minilong.target("minilong", {})
    assert error_of(minilong) == ("too-few-scores", "minilong")


def recorded(marts, problem="minilong"):
    loaded = load_problem(problem, marts.workspace)
    found = load_table(loaded, marts.workspace)
    record_tested(found, marts.workspace)
    return found


def test_a_table_that_is_only_read_records_nothing(minilong):
    table(minilong)
    assert recorded_metrics(minilong.workspace, "minilong") == []


def test_what_was_built_once_counts_for_ever(minilong):
    """Under its name, or once more when its parameters change; not once more for new values."""
    assert recorded(minilong).recorded == ()
    with minilong.write() as connection:
        connection.execute("update metric_values set value = value + 1 where metric = 'good'")
    assert recorded(minilong).recorded == ()
    with minilong.write() as connection:
        connection.execute(
            """
            update metric_catalog set parameters = '{"k": 2}' where variant = 'v0';
            update metric_values set value = -value where variant = 'v0'
            """
        )
        connection.execute("delete from metric_values where variant = 'v1'")
    found = table(minilong)
    assert [(c.name, c.kind, c.admissible) for c in found.recorded] == [
        ("noise/v0", "variant", True),
        ("noise/v1", "variant", True),
    ]
    assert found.tested == {
        "all": 9,
        "variants_of_this_build": 7,
        "variants_of_earlier_builds": 2,
        "ideas": 0,
    }
    assert np.isfinite(found.recorded[1].values).all() and len(found.everything) == 9


def test_a_file_target_is_read_by_full_id_and_locked(marts, target, made_up_scores):
    problem = load_problem("no4k", marts.workspace)
    scores, source = load_target(problem, marts.workspace)
    assert scores["01-ai--Yi-6B-200K"] == made_up_scores["01-ai/Yi-6B-200K"]
    assert source["kind"] == "file" and len(source["sha256"]) == 64
    target.write_text(target.read_text() + "\n")
    with pytest.raises(LockedFileError):
        load_target(problem, marts.workspace)
