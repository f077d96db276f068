"""Metric values from values of documents that another build handed on, by the mart's own SQL."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import TokenmartError
from warehouse.metrics.dbt_process import command, one_at_a_time, run_words

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.paths import Workspace

_SELECTION = ("--select", "metric_values", "--exclude-resource-type", "unit_test")


def values_from_documents(documents: pa.Table, problem: str, workspace: Workspace) -> pa.Table:
    """Values of metrics from values per document, as `dbt build` would make them.

    dbt runs on a copy of the database; the workspace's own stays as it is.

    Args:
        documents: rows of `metric_documents` of one problem, in place of those that were built.
        problem: whose rows these are.
        workspace: with a whole build by the present metrics.

    Returns:
        The problem's rows of `metric_values`, sorted.

    Raises:
        TokenmartError: nothing is built, dbt isn't installed or failed, or metrics have changed
            since the build.
    """
    program = command()
    if program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    if not workspace.database.is_file():
        raise TokenmartError(f"{workspace.database}: not built; run `tokenmart dbt build`")
    with one_at_a_time(workspace), TemporaryDirectory(prefix="tokenmart-values-") as folder:
        # the name stays: with another, dbt would parse the whole project anew
        own = replace(workspace, database=Path(folder) / workspace.database.name)
        shutil.copyfile(workspace.database, own.database)
        with duckdb.connect(str(own.database)) as connection:
            connection.register("given", documents)
            connection.execute("delete from main.metric_documents where problem = ?", [problem])
            connection.execute("insert into main.metric_documents by name select * from given")
        status, _ = run_words([*program, "--quiet", "build", *_SELECTION], own)
        if status:
            raise TokenmartError(
                "metric_values: dbt could not build it from values of documents, see above; run "
                "`tokenmart dbt build`, then this again"
            )
        with duckdb.connect(str(own.database), read_only=True) as connection:
            asked = "select * from main.metric_values where problem = $problem order by all"
            return connection.sql(asked, params={"problem": problem}).to_arrow_table()
