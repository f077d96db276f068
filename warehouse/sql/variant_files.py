"""The variants' CSV files, read before DuckDB does: it names no line, and 1.5 not even the file."""

from __future__ import annotations

import csv

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace


def refuse_uneven_rows(workspace: Workspace) -> None:
    """Raise TokenmartError for the first row with more or fewer values than its file has columns.

    The error names file, line, row and columns.
    """
    for path in sorted((workspace.dbt_project / "variants").glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            columns = next(rows, [])
            for row in rows:
                if row and len(row) != len(columns):
                    raise TokenmartError(
                        f"{path}, line {rows.line_num}: {len(row)} values for {len(columns)} "
                        f"columns: {','.join(row)}\n"
                        f"the columns are {','.join(columns)}; leave what doesn't apply empty, "
                        "but keep its comma"
                    )
