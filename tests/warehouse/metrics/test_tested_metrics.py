"""What was tested on a problem is recorded, once each."""

from __future__ import annotations

import json
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import duckdb
import pytest

from warehouse.errors import StorageError
from warehouse.metrics import tested_metrics as record
from warehouse.metrics.tested_metrics import (
    MISSING_AFTER_SECONDS,
    GroupedModel,
    KnownTarget,
    MetricRecord,
    built_metrics,
    may_be_lost,
    record_metrics,
    recorded_metrics,
    target_sha256,
)

GAIN = MetricRecord("gain", "mean", "variant", "sum(gain)", {"a": 1.0, "b": 2.0})
SCORES = {"lab/a": 0.5, "lab/b": 0.25, "c": 0.1}
TARGET = KnownTarget(
    target_sha256(SCORES),
    {
        "lab/a": GroupedModel("a", "one", "lab/a"),
        "lab/b": GroupedModel("b", "one", "lab/b"),
        "c": GroupedModel("c", "two", "c"),
    },
)


def test_a_try_is_seen_again_not_twice(workspace):
    record_metrics(workspace, "p", [GAIN], TARGET)
    (first,) = recorded_metrics(workspace, "p")
    assert (first.values, first.first_seen) == ({"a": 1.0, "b": 2.0}, first.last_seen)
    more = MetricRecord("gain", "mean", "variant", "sum(gain)", {"b": 3.0, "c": 4.0, "d": math.nan})
    record_metrics(workspace, "p", [more], TARGET)
    (again,) = recorded_metrics(workspace, "p")
    assert again.values == {"a": 1.0, "b": 3.0, "c": 4.0}
    assert again.first_seen == first.first_seen
    assert recorded_metrics(workspace, "q") == []


def test_an_edit_counts_when_it_changes_a_value(workspace):
    record_metrics(workspace, "p", [GAIN], TARGET)
    same = MetricRecord("gain", "mean", "variant", "sum( gain )", {"a": 1.0 + 1e-9, "b": 2.0})
    other = MetricRecord("gain", "mean", "variant", "sum(gain) / 2", {"a": 0.5, "b": 1.0})
    record_metrics(workspace, "p", [same, other], TARGET)
    assert [entry.definition for entry in recorded_metrics(workspace, "p")] == [
        "sum( gain )",
        "sum(gain) / 2",
    ]
    asked = MetricRecord("gain", "mean", "sql", "select …", GAIN.values)
    nothing = MetricRecord("none", "x", "values", "f.csv", {"a": math.inf})
    record_metrics(workspace, "p", [asked, nothing], TARGET)
    assert [entry.kind for entry in recorded_metrics(workspace, "p")] == [
        "variant",
        "variant",
        "sql",
    ]


def test_parallel_writers_lose_nothing(workspace):
    rows = [MetricRecord("gain", f"v{n}", "variant", str(n), {"a": float(n)}) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: record_metrics(workspace, "p", [row], TARGET), rows))
    assert {entry.variant for entry in recorded_metrics(workspace, "p")} == {
        row.variant for row in rows
    }


@pytest.mark.parametrize("text", ["[{", "[" * 100_000, "{}", '{"entries": [3]}'])
def test_a_damaged_file_is_named_and_kept(workspace, text):
    record_metrics(workspace, "p", [GAIN], TARGET)
    path = workspace.data / "tested" / "problem=p.json"
    path.write_text(text, encoding="utf-8")
    for call in (
        lambda: recorded_metrics(workspace, "p"),
        lambda: record_metrics(workspace, "p", [GAIN], TARGET),
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
        record_metrics(workspace, "p", [row], TARGET)
    assert [entry.values["a"] for entry in recorded_metrics(workspace, "p")] == [0.6, 0.77, -0.31]
    assert len(record.tested_besides(record.tested_record(workspace, "p", TARGET), rows[:1])) == 2


def test_an_idea_keeps_its_direction(workspace):
    one = MetricRecord("idea", "x", "values", "sha256 1", {"a": 1.0, "b": 2.0}, "lower")
    record_metrics(workspace, "p", [one, replace(one, direction="higher"), one], TARGET)
    assert [entry.direction for entry in recorded_metrics(workspace, "p")] == ["lower", "higher"]


def test_a_renamed_problem_counts_what_was_tested_against_the_same_scores(workspace):
    """Its models may have other ids there; the values follow their full ids."""
    record_metrics(workspace, "p", [GAIN], TARGET)
    renamed = {name: replace(m, model_id=f"{m.model_id}2") for name, m in TARGET.models.items()}
    same = KnownTarget(target_sha256(dict(reversed(SCORES.items()))), renamed)
    (entry,) = record.tested_besides(record.tested_record(workspace, "q", same), [])
    assert (entry.metric, entry.values) == ("gain", {"a2": 1.0, "b2": 2.0})
    other = replace(same, sha256=target_sha256(SCORES | {"c": 0.2}))
    assert record.tested_record(workspace, "q", other).entries == ()
    record_metrics(workspace, "q", [GAIN], other)
    assert len(record.tested_record(workspace, "q", same).entries) == 2, "its own, and those of p"


def test_labels_are_those_of_the_first_test(workspace):
    record_metrics(workspace, "p", [GAIN], TARGET)
    alone = {name: replace(model, family=name) for name, model in TARGET.models.items()}
    fewer = {name: model for name, model in alone.items() if name != "c"}
    for models in (alone, fewer, {**TARGET.models, "d": GroupedModel("d", "two", "d")}):
        record_metrics(workspace, "p", [GAIN], replace(TARGET, models=models))
    tested = record.tested_record(workspace, "p", TARGET)
    assert [model.family for model in tested.models.values()] == ["one", "one", "two", "two"]
    assert tested.changes(TARGET) == ("d was left out",)
    moved = [f"{name} was put into another family or series" for name in fewer]
    assert tested.changes(replace(TARGET, models=fewer)) == (
        *moved,
        "c was left out",
        "d was left out",
    )


@pytest.mark.parametrize("edit", ["remove", "change"])
def test_an_entry_that_was_edited_is_noticed(workspace, edit):
    rows = [replace(GAIN, variant=name) for name in ("x", "y", "z")]
    record_metrics(workspace, "p", rows, TARGET)
    path = workspace.data / "tested" / "problem=p.json"
    content = json.loads(path.read_text("utf-8"))
    if edit == "remove":
        del content["entries"][1]
    else:
        content["entries"][1]["values"]["a"] = 0.0
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(StorageError, match=r"entry 2 was changed"):
        recorded_metrics(workspace, "p")


def test_the_record_of_an_earlier_version_is_moved(workspace):
    earlier = workspace.data / "tries" / "problem=p.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text(json.dumps([asdict(replace(GAIN, first_seen="2026-01-02T00:00:00+00:00"))]))
    assert record.tested_record(workspace, "p", TARGET).since == "2026-01-02"
    record_metrics(workspace, "p", [replace(GAIN, variant="new")], TARGET)
    assert not earlier.exists()
    assert [entry.variant for entry in recorded_metrics(workspace, "p")] == ["mean", "new"]


def test_a_variant_that_was_renamed_counts_once(workspace):
    earlier = replace(GAIN, metric="entropy", variant="first_choice_nll_macro")
    record_metrics(workspace, "p", [earlier, replace(earlier, kind="sql")], TARGET)
    record_metrics(workspace, "p", [replace(earlier, variant="top_1_nll_macro")], TARGET)
    assert [(entry.kind, entry.variant) for entry in recorded_metrics(workspace, "p")] == [
        ("variant", "top_1_nll_macro"),
        ("sql", "first_choice_nll_macro"),
    ]


def test_a_missing_record_of_an_older_build_is_noticed(workspace):
    empty = record.tested_record(workspace, "p", TARGET)
    assert not may_be_lost(workspace, empty), "nothing is built"
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    workspace.database.touch()
    assert not may_be_lost(workspace, empty)
    built = time.time() - MISSING_AFTER_SECONDS - 1
    os.utime(workspace.database, (built, built))
    assert may_be_lost(workspace, empty)
    record_metrics(workspace, "p", [GAIN], TARGET)
    assert not may_be_lost(workspace, record.tested_record(workspace, "p", TARGET))
