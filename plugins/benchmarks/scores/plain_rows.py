"""Tables of scores and items that users bring: base of their rows, and checks across rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar
from unicodedata import normalize

import pyarrow as pa
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from plugins.benchmarks.refusal import refused
from warehouse.errors import TokenmartError
from warehouse.table_file import read_rows


class PlainRow(BaseModel):
    """One row; other columns than its fields are refused, blanks around a text are none of it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, coerce_numbers_to_str=True, str_strip_whitespace=True
    )


Row = TypeVar("Row", bound=BaseModel)
Name = Annotated[str, Field(min_length=1), AfterValidator(partial(normalize, "NFC"))]
"""Names that are canonically equivalent in Unicode look the same: they are one."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Least0 = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Architecture = Annotated[str | None, Field(validation_alias=AliasChoices("architecture", "arch"))]
"""The competition's tables call the column `arch`; a table has one of the two."""

Fact = tuple[str, Hashable, Hashable]
"""What rows must agree on, which rows (those of a model, of a metric …), and a row's value."""


def _refused_row(path: Path, row: int, what: str, code: str) -> TokenmartError:
    return refused(f"{path}: row {row}", what, code)


def rows_of(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of a file (CSV, TSV, JSON lines or Parquet), in order; at least one.

    Raises:
        TokenmartError: the file can't be read or has no row, or a row is wrong.
    """
    rows = read_rows(path, kind)
    if not rows:
        raise refused(path, "contains no row", "no-row")
    return rows


def as_csv(names: Iterable[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as the text of a CSV file with these columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_table(rows: Iterable[PlainRow], schema: pa.Schema) -> pa.Table:
    """Rows as a table with the fields of a schema."""
    return pa.Table.from_pylist([row.model_dump() for row in rows], schema)


def refuse_contradictions(
    path: Path,
    rows: Iterable[tuple[int, Row]],
    key: Callable[[Row], Hashable],
    facts: Callable[[Row], Iterable[Fact]],
) -> None:
    """Stop at a row with the key of an earlier one (`repeated`), or that contradicts one.

    Args:
        path: of the table.
        rows: with their numbers.
        key: what no two rows have in common.
        facts: of a row.

    Raises:
        TokenmartError: with the first such row.
    """
    keys: dict[Hashable, int] = {}
    known: dict[Hashable, tuple[int, Any]] = {}
    for number, row in rows:
        if (other := keys.setdefault(key(row), number)) != number:
            raise _refused_row(path, number, f"repeats row {other}", "repeated")
        for fact, of, value in facts(row):
            other, expected = known.setdefault((fact, of), (number, value))
            if value != expected:
                what = f"contradicts row {other}: {fact} is {value!r} and {expected!r} for {of}"
                raise _refused_row(path, number, what, "contradiction")


def refuse_two_orders(path: Path, rows: Iterable[tuple[int, Any]]) -> None:
    """Stop at checkpoints of a model that `tokens` and `step` put into different orders.

    Args:
        path: of the table.
        rows: with their numbers; rows have `model`, `step` and `tokens`.

    Raises:
        TokenmartError: more steps have fewer tokens.
    """
    first: dict[tuple[str, int, float], int] = {}
    for number, row in rows:
        if row.step is not None and row.tokens is not None:
            first.setdefault((row.model, row.step, row.tokens), number)
    wrong = [
        (first[after], first[before])
        for before, after in pairwise(sorted(first))
        if after[0] == before[0] and after[2] < before[2]
    ]
    if wrong:
        number, other = min(wrong)
        raise _refused_row(path, number, f"more steps and fewer tokens than row {other}", "order")
