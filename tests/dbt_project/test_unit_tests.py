"""Every formula worked by hand: dbt's unit tests, which need the tables' columns but no rows."""

from __future__ import annotations

import pytest


@pytest.mark.timeout(400)  # files with the longest limits begin: no worker is left alone with it
def test_every_unit_test_passes(built):
    built.run("--select", "tag:benchmarks", "tag:rankings", "--empty")
    done = built.dbt("test", "--select", "test_type:unit")
    assert done.returncode == 0, done.stdout
    assert "ERROR=0 SKIP=0" in done.stdout


def test_every_metric_is_worked_by_hand(built):
    tests = built.manifest["unit_tests"].values()
    tested = {test["model"] for test in tests}
    metrics = {metric for (metric,) in built.rows("select distinct metric from metric_catalog")}
    assert metrics <= tested
