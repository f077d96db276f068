"""dbt as its manual has it: selections, tags and commands on a fresh and on a built database."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt_harness import NO_UNIT_TESTS, PROJECT, NewWarehouse, Warehouse, assert_same_values
from made_up_warehouse import Shape, Window

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHAPE = Shape(models=2, documents=2, tokens=700, windows=(Window(64, 32),))


@pytest.fixture(scope="module")
def whole(new_warehouse: NewWarehouse) -> Warehouse:
    """All of `SHAPE`, built by `dbt run`."""
    warehouse = new_warehouse(SHAPE)
    warehouse.run()
    return warehouse


def on_fresh(whole: Warehouse, folder: Path) -> Warehouse:
    """The same data and project, with no database yet."""
    return Warehouse(whole.data, folder / "tokenmart.duckdb", whole.project)


def values(warehouse: Warehouse, metric: str) -> dict[tuple[str, str], float | None]:
    found = warehouse.values(metric)
    assert any(value is not None for value in found.values())
    return found


@pytest.mark.parametrize(
    ("words", "metric"),
    [
        (("run", "--select", "+perplexity+"), "perplexity"),
        (("build", "--select", "+longppl+", *NO_UNIT_TESTS), "longppl"),
        (("run", "--select", "+retrieval_gain+", "token_units"), "retrieval_gain"),
        (("build", "--select", "+path:models/marts/custom+", *NO_UNIT_TESTS), "confident_mistakes"),
    ],
)
def test_a_selection_on_a_fresh_database(
    whole: Warehouse, tmp_path: Path, words: tuple[str, ...], metric: str
) -> None:
    """What was selected has the right values, and what was not has none, and no false reasons."""
    fresh = on_fresh(whole, tmp_path)
    done = fresh.dbt(*words)
    assert done.returncode == 0, done.stdout
    expected = values(whole, metric)
    found = values(fresh, metric)
    assert {key: value is None for key, value in found.items()} == {
        key: value is None for key, value in expected.items()
    }
    for key, value in found.items():
        assert value is None or value == pytest.approx(expected[key], rel=1e-9), key
    (metrics,) = fresh.rows("select list(distinct metric) from metric_values")[0]
    assert metrics == [metric]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--select", "+perplexity+"),
        ("build", "--select", "longppl", *NO_UNIT_TESTS),
        ("build", "--select", "tag:probes", *NO_UNIT_TESTS),
        ("run", "--select", "state:modified+", "--state", "target"),
        ("build", *NO_UNIT_TESTS),
        ("test", *NO_UNIT_TESTS),
        ("ls", "--select", "+perplexity+"),
        ("docs", "generate"),
    ],
)
def test_commands_on_a_built_database(
    whole: Warehouse, tmp_path: Path, words: tuple[str, ...]
) -> None:
    built = whole.copied(tmp_path)
    if "--state" in words:
        words = (*words[:-1], str(built.database.parent / "target"))
    done = built.dbt(*words)
    assert done.returncode == 0, done.stdout
    assert_same_values(built, whole)


def test_a_selection_without_what_it_reads_is_dbts_own_error(
    whole: Warehouse, tmp_path: Path
) -> None:
    done = on_fresh(whole, tmp_path).dbt("run", "--select", "longppl")
    assert done.returncode == 1
    assert "longppl" in done.stdout and "does not exist" in done.stdout


def test_a_broken_metric_is_dbts_own_error_and_exclude_builds_the_rest(
    whole: Warehouse, tmp_path: Path
) -> None:
    broken = whole.copied(tmp_path)
    (broken.project / "models" / "marts" / "metrics" / "rank.sql").write_text(
        "select * exclude (unit_id, definition), no_such_column from {{ ref('token_metrics') }}"
    )
    done = broken.dbt("run", "--full-refresh")
    assert done.returncode == 1
    assert "model rank " in done.stdout and "no_such_column" in done.stdout
    excluded = on_fresh(broken, tmp_path / "fresh").dbt("run", "--exclude", "rank")
    assert excluded.returncode == 0, excluded.stdout


def test_dbt_from_another_folder(whole: Warehouse, tmp_path: Path) -> None:
    """`--project-dir` in place of standing in the project's folder."""
    fresh = Warehouse(whole.data, tmp_path / "tokenmart.duckdb", tmp_path)
    done = fresh.dbt("run", "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT))
    assert done.returncode == 0, done.stdout
    assert_same_values(fresh, whole)


def test_perplexity_depends_on_few_models(whole: Warehouse) -> None:
    manifest = whole.manifest
    above, waiting = set(), ["model.tokenmart.perplexity"]
    while waiting:
        for parent in manifest["parent_map"][waiting.pop()]:
            if parent.startswith("model.") and parent not in above:
                above.add(parent)
                waiting.append(parent)
    assert len(above) <= 5, above
    macros = {
        macro
        for model in ("model.tokenmart.perplexity", *above)
        for macro in manifest["nodes"][model]["depends_on"]["macros"]
        if macro.startswith("macro.tokenmart.")
    }
    assert len(macros) <= 3, macros
