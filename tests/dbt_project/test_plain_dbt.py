"""dbt as its manual has it: selections, tags and commands on a fresh and on a built database."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt_harness import (
    NO_UNIT_TESTS,
    NewWarehouse,
    Warehouse,
    add_variant,
    assert_same_values,
)
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
        (
            ("build", "--select", "+path:models/metrics/rank.sql+", *NO_UNIT_TESTS),
            "rank",
        ),
    ],
)
def test_a_selection_on_a_fresh_database(whole, tmp_path, words, metric):
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
def test_commands_on_a_built_database(whole, tmp_path, words):
    built = whole.copied(tmp_path)
    if "--state" in words:
        words = (*words[:-1], str(built.database.parent / "target"))
    done = built.dbt(*words)
    assert done.returncode == 0, done.stdout
    assert_same_values(built, whole)


def test_a_selection_without_what_it_reads_is_dbts_own_error(whole, tmp_path):
    done = on_fresh(whole, tmp_path).dbt("run", "--select", "longppl")
    assert done.returncode == 1
    assert "longppl" in done.stdout and "does not exist" in done.stdout


def test_a_broken_metric_is_dbts_own_error_and_exclude_builds_the_rest(whole, tmp_path):
    broken = whole.copied(tmp_path)
    path = broken.project / "models" / "metrics" / "rank.sql"
    path.write_text(path.read_text().replace("rank = 1", "no_such_column = 1"))
    done = broken.dbt("run", "--full-refresh")
    assert done.returncode == 1
    assert "model rank " in done.stdout and "no_such_column" in done.stdout
    excluded = on_fresh(broken, tmp_path / "fresh").dbt("run", "--exclude", "rank")
    assert excluded.returncode == 0, excluded.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("'numerator'", "'numeratr'", "numeratr"),
        ("variants = {", "variants = {'x': {'aggregation': 'mean'}, ", "mean"),
    ],
)
def test_a_wrong_setting_is_named(whole, tmp_path, old, new, said):
    wrong = whole.copied(tmp_path)
    path = wrong.project / "models" / "metrics" / "rank.sql"
    path.write_text(path.read_text().replace(old, new, 1))
    done = wrong.dbt("parse")
    assert done.returncode != 0 and said in done.stdout and "rank.sql" in done.stdout


METRICS_OF_FILTERS = ("perplexity", "longppl", "longppl_external")


def test_filters_that_differ_in_case_are_two_filters(whole, tmp_path):
    """Each selects the tokens that its own text names, at even or at odd positions."""
    own = whole.copied(tmp_path)
    letter = "not shares_character and chr(65 + 32 * (position % 2)) = $$"
    filters = {
        "upper": f"{letter}A$$",
        "lower": f"{letter}a$$",
        "even": "not shares_character and position % 2 = 0",
        "odd": "not shares_character and position % 2 = 1",
    }
    for metric in METRICS_OF_FILTERS:
        for name, where in filters.items():
            add_variant(own, metric, name, where=where)
    own.run("--select", *(f"+{metric}+" for metric in METRICS_OF_FILTERS))
    for metric in METRICS_OF_FILTERS:
        found: dict[str, list[float]] = {}
        for (variant, _), value in sorted(values(own, metric).items()):
            found.setdefault(variant.partition("@")[0], []).append(value)
        assert found["upper"] == pytest.approx(found["even"], rel=1e-9), metric
        assert found["lower"] == pytest.approx(found["odd"], rel=1e-9), metric
        assert found["upper"] != pytest.approx(found["lower"], rel=1e-3), metric


def test_a_new_metric_is_its_file_and_a_ref(whole, tmp_path):
    """Without its YAML or the ref in metric_documents dbt names them; its tests run alone."""
    own = whole.copied(tmp_path)
    metrics, documents = own.project / "models" / "metrics", own.project / "models" / "marts"
    (metrics / "late_nll.sql").write_text(
        "{{ metric(over='tokens', numerator='sum(nll)', variants={'micro': {}}) }}"
    )
    done = own.dbt("run", "--select", "late_nll+")
    assert done.returncode != 0 and "late_nll.yml" in done.stdout
    (metrics / "late_nll.yml").write_text(
        "models:\n  - name: late_nll\n    description: Late.\n    config:\n"
        "      meta: {family: position, direction: lower, needs: full}\n"
        "    columns:\n      - {name: numerator, data_tests: [not_null]}\n"
    )
    done = own.dbt("run", "--select", "late_nll+")
    assert done.returncode != 0 and "ref('late_nll')" in done.stdout
    path = documents / "metric_documents.sql"
    path.write_text(path.read_text().replace("set metrics = [", "set metrics = [ref('late_nll'),"))
    own.run("--select", "late_nll+")
    assert own.values("late_nll").keys() == {("micro", f"lab--model-{n}") for n in range(2)}
    done = own.dbt("test", "--select", "late_nll")
    assert done.returncode == 0 and "PASS=2 " in done.stdout  # the test and the hook
