"""Questions to the warehouse: the DuckDB file is held only while one is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import (
    DatabaseBusyError,
    attach_marts,
    connect_to_parquet,
    detach_marts,
)
from warehouse.sql.execution import execute
from warehouse.sql.queries import Value


class Session:
    """An in-memory database over the Parquet files that lends the marts for one question.

    Between questions dbt may write: the next one sees what it wrote. While dbt writes,
    questions that need the Parquet files only are answered.
    """

    def __init__(self, workspace: Workspace, patience: float | None = None) -> None:
        self._workspace = workspace
        self._patience = patience
        self._connection = connect_to_parquet(workspace)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    @contextmanager
    def ask(
        self, sql: str, parameters: Mapping[str, Value] | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run statements; the connection holds the rows of the last one inside the block.

        Raises:
            TokenmartError: a mistake in the SQL, or a statement that would write.
            StorageError: a file is damaged, or dbt writes a table that was asked for.
        """
        busy: DatabaseBusyError | None = None
        try:
            attach_marts(self._connection, self._workspace, self._patience)
        except DatabaseBusyError as error:
            busy = error
        try:
            yield self._run(sql, parameters or {}, busy)
        finally:
            detach_marts(self._connection, self._workspace)

    def _run(
        self, sql: str, parameters: Mapping[str, Value], busy: DatabaseBusyError | None
    ) -> duckdb.DuckDBPyConnection:
        try:
            return execute(self._connection, sql, parameters)
        except TokenmartError as error:
            if busy and "Catalog Error" in error.message:
                raise busy from error
            raise
