"""`--json` of commands that scripts call: records of one shape, and nothing else on stdout."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from json_records import records
from tiny_runs import ok, run

from tokenmart import cli
from warehouse.maintenance import doctor
from warehouse.maintenance.doctor import Check


def invoke(*words):
    return CliRunner().invoke(cli, [*words, "--json"])


@pytest.mark.parametrize("missing", [False, True])
def test_doctor(workspace, monkeypatch, missing):
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "broken", missing)])
    found = records(invoke("doctor"), "name finding is_missing", code=int(missing))
    assert {"name": "device", "finding": "broken", "is_missing": missing} in found


def test_plan_and_status_before_and_after_an_extraction(workspace, tiny_problem):
    path = tiny_problem(texts=1)
    plan, status = (
        ("extract", "--problem", str(path), "--dry-run"),
        ("status", "--problem", str(path)),
    )
    names = (
        "model model_id units units_done tokens seconds rows disk_bytes download_bytes peak_bytes "
        "is_assumed to_place"
    )
    before = invoke(*plan)
    assert [each["units_done"] for each in records(before, names)] == [0, 0]
    assert "note: " in before.stderr
    assert ok(run(path))
    after = records(invoke(*plan), names)
    assert [each["units_done"] for each in after] == [each["units"] for each in after] == [4, 4]
    assert after[0]["tokens"] > 0 and after[0]["seconds"] > 0
    shown = (
        "model model_id condition done failed outdated over_limit cut tokens_read tokens_whole "
        "reasons on_request without_rows documents rows tokens_processed seconds bytes peak_bytes "
        "predicted_peak_bytes attention prefixes"
    )
    assert {each["done"] for each in records(invoke(*status), shown)} == {1}
    # a store of version 0.1.0 has no table `needed`, and others that nothing reads any more
    (workspace.store / "needed").rename(workspace.store / "lineup")
    assert {each["done"] for each in records(invoke(*status), shown)} == {1}
    counted = invoke("sql", "select count(distinct model_id) as models from tokens")
    assert counted.exit_code == 0, counted.output
    assert invoke("extract", "--problem", str(path)).exit_code == 2


def test_metrics_show():
    names = (
        "metric variant family direction admissible needs caution formula description "
        "numerator denominator where aggregation transform tokens min_tokens "
        "min_document_tokens over core code"
    )
    found = records(invoke("metrics", "show", "perplexity"), names)
    assert {(each["metric"], each["direction"]) for each in found} == {("perplexity", "lower")}
