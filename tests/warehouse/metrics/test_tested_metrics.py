"""What was tried on a problem is remembered, once each."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pytest

from warehouse.errors import StorageError
from warehouse.metrics import tested_metrics as record
from warehouse.metrics.tested_metrics import (
    MetricRecord,
    built_metrics,
    record_metrics,
    recorded_metrics,
)

GAIN = MetricRecord("gain", "mean", "variant", "sum(gain)", {"a": 1.0, "b": 2.0})


def test_a_try_is_seen_again_not_twice(workspace):
    record_metrics(workspace, "p", [GAIN])
    (first,) = recorded_metrics(workspace, "p")
    assert (first.values, first.first_seen) == ({"a": 1.0, "b": 2.0}, first.last_seen)
    more = MetricRecord("gain", "mean", "variant", "sum(gain)", {"b": 3.0, "c": 4.0, "d": math.nan})
    record_metrics(workspace, "p", [more])
    (again,) = recorded_metrics(workspace, "p")
    assert again.values == {"a": 1.0, "b": 3.0, "c": 4.0}
    assert again.first_seen == first.first_seen
    assert recorded_metrics(workspace, "q") == []


def test_an_edit_counts_when_it_changes_a_value(workspace):
    record_metrics(workspace, "p", [GAIN])
    same = MetricRecord("gain", "mean", "variant", "sum( gain )", {"a": 1.0 + 1e-9, "b": 2.0})
    other = MetricRecord("gain", "mean", "variant", "sum(gain) / 2", {"a": 0.5, "b": 1.0})
    record_metrics(workspace, "p", [same, other])
    assert [entry.definition for entry in recorded_metrics(workspace, "p")] == [
        "sum( gain )",
        "sum(gain) / 2",
    ]
    asked = MetricRecord("gain", "mean", "sql", "select …", GAIN.values)
    record_metrics(
        workspace, "p", [asked, MetricRecord("none", "x", "values", "f.csv", {"a": math.inf})]
    )
    assert [entry.kind for entry in recorded_metrics(workspace, "p")] == [
        "variant",
        "variant",
        "sql",
    ]


def test_parallel_writers_lose_nothing(workspace):
    rows = [MetricRecord("gain", f"v{n}", "variant", str(n), {"a": float(n)}) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: record_metrics(workspace, "p", [row]), rows))
    assert {entry.variant for entry in recorded_metrics(workspace, "p")} == {
        row.variant for row in rows
    }


@pytest.mark.parametrize("text", ["[{", "[" * 100_000])
def test_a_damaged_file_is_named_and_kept(workspace, text):
    record_metrics(workspace, "p", [GAIN])
    path = workspace.data / "tries" / "problem=p.json"
    path.write_text(text, encoding="utf-8")
    for call in (
        lambda: recorded_metrics(workspace, "p"),
        lambda: record_metrics(workspace, "p", [GAIN]),
    ):
        with pytest.raises(StorageError, match=r"problem=p\.json: can't be read .* move it away"):
            call()
    assert path.read_text(encoding="utf-8") == text


def test_what_is_built_counts_by_its_formula_and_code():
    with duckdb.connect() as connection:
        connection.execute(
            "create table metric_catalog as select 'gain' as metric, 'mean' as variant, "
            "json('{\"k\": 1}') as parameters, 'abc' as code"
        )
        connection.execute(
            "create table metric_values as select * from (values ('p', 'gain', 'mean', 'a', 1.5), "
            "('p', 'gain', 'mean', 'b', null)) as v(problem, metric, variant, model_id, value)"
        )
        (entry,) = built_metrics(connection, "p")
        assert built_metrics(connection, "q") == []
    assert (entry.kind, entry.metric, entry.values) == ("variant", "gain", {"a": 1.5})
    assert json.loads(entry.definition) == {"parameters": {"k": 1}, "code": "abc"}


def test_random_sql_counts_each_time(workspace):
    """The same text with other values is another test; with the same values it is the same."""
    rows = [
        MetricRecord("idea", "x", "sql", "select random()", {"a": value, "b": 1.0}, "higher")
        for value in (0.6, 0.77, -0.31, 0.6)
    ]
    for row in rows:
        record_metrics(workspace, "p", [row])
    assert [entry.values["a"] for entry in recorded_metrics(workspace, "p")] == [0.6, 0.77, -0.31]
    assert len(record.tested_besides(workspace, "p", rows[:1])) == 2


def test_an_idea_keeps_its_direction(workspace):
    one = MetricRecord("idea", "x", "values", "sha256 1", {"a": 1.0, "b": 2.0}, "lower")
    record_metrics(workspace, "p", [one, replace(one, direction="higher"), one])
    assert [entry.direction for entry in recorded_metrics(workspace, "p")] == ["lower", "higher"]
