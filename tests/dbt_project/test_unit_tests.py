"""Every formula worked by hand: dbt's unit tests, which need the tables' columns but no rows."""

from __future__ import annotations

import pytest
from dbt_harness import Warehouse


@pytest.mark.slow
def test_every_unit_test_passes(built: Warehouse) -> None:
    done = built.dbt("test", "--select", "test_type:unit")
    assert done.returncode == 0, done.stdout
    assert "ERROR=0 SKIP=0" in done.stdout


def test_every_family_has_a_unit_test(built: Warehouse) -> None:
    tested = {test["model"] for test in built.manifest["unit_tests"].values()}
    families = {metric for (metric,) in built.rows("select distinct metric from metric_catalog")}
    assert families <= tested
