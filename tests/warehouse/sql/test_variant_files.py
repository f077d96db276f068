"""A row of a variants file that doesn't fit is named before dbt starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.paths import Workspace, find_workspace
from warehouse.sql.variant_files import refuse_uneven_rows


@pytest.mark.parametrize(
    ("row", "found"), [("key_share,b,2,9", "4 values"), ("key_share,b", "2 values")]
)
def test_an_uneven_row_is_named_with_its_line(workspace: Workspace, row: str, found: str) -> None:
    variants = workspace.dbt_project / "variants"
    variants.mkdir()
    good = "metric,variant,alpha\r\nkey_share,a,1\n\n"
    (variants / "even.csv").write_text(good, encoding="utf-8", newline="")
    refuse_uneven_rows(workspace)
    (variants / "key_share.csv").write_text(f"{good}{row}\n", encoding="utf-8", newline="")
    stopped = CliRunner().invoke(cli, ["dbt", "run"])
    assert stopped.exit_code != 0
    assert "key_share.csv, line 4" in stopped.output
    assert found in stopped.output and "3 columns" in stopped.output and row in stopped.output
    assert "keep its comma" in stopped.output


def test_the_files_that_ship_are_even() -> None:
    refuse_uneven_rows(find_workspace(Path(__file__)))
