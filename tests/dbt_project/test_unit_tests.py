"""dbt's unit tests, worked by hand; they need the tables' columns but no rows."""

from __future__ import annotations

from dbt_harness import Warehouse


def test_every_unit_test_passes(built: Warehouse) -> None:
    built.run("--select", "tag:benchmarks", "tag:rankings", "--empty")
    done = built.dbt("test", "--select", "test_type:unit")
    assert done.returncode == 0, done.stdout
    assert "ERROR=0 SKIP=0" in done.stdout
