"""Who has the database open: which command lines run dbt."""

from __future__ import annotations

import pytest

from warehouse.sql.connection import _runs_dbt


@pytest.mark.parametrize(
    ("line", "dbt"),
    [
        ("/venv/bin/dbt run", True),
        ("/usr/bin/python3.11 /venv/bin/dbt run", True),
        ("/Library/Frameworks/MacOS/Python /venv/bin/dbt build", True),
        ("python -Werror -m dbt.cli.main run", True),
        ("python -W ignore -m dbt run", True),
        ("python -m tokenmart dbt run", True),
        ("python /venv/bin/tokenmart dbt run", True),
        ("python -m dbtools run", False),
        ("python /venv/bin/tokenmart sql dbt", False),
        ("duckdb dbt.duckdb", False),
        ("python dbt/notebook.py dbt", False),
    ],
)
def test_a_command_line_that_runs_dbt_is_known(line: str, dbt: bool) -> None:
    assert _runs_dbt(line.split()) is dbt
