"""The variants' CSV files, checked before anything is built from them.

DuckDB names no line of a CSV file, and a setting that nobody reads would go unnoticed. Here every
mistake is one line: file, line, variant, column, and what to do.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.registry import Family, models_of

SETTINGS = "models/staging/stg_metric_variants.yml"
"""Describes every column that a variants file may have: name, type, accepted values, range."""

COMMON = ("metric", "variant", "aggregation", "core", "min_tokens")
"""Columns that any family's file may have."""

_REQUIRED = ("metric", "variant", "aggregation")
_WORDS = {"integer": "a whole number", "bigint": "a whole number", "double": "a number"}


@dataclass(frozen=True)
class Setting:
    """What a column of the variants files may hold.

    kind: its SQL type.
    accepted: the words it may be; empty where it takes anything of its type.
    low, high: the least and the greatest number.
    power_of_two: whether it must be one: sums are kept in octaves.
    """

    kind: str
    accepted: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    power_of_two: bool = False


class Variant(NamedTuple):
    """One row of a variants file: `variant`, and its settings as they are written."""

    line: int
    variant: str
    settings: dict[str, str]


def read_settings(project: Path) -> dict[str, Setting]:
    """Column → what it may hold, from the YAML of stg_metric_variants.

    Raises:
        TokenmartError: the YAML can't be read.
    """
    (entry,) = models_of(project / SETTINGS)
    return {str(column["name"]): _setting(column) for column in entry.get("columns", ())}


def take_grids(arguments: Sequence[str], metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split `--grids [FAMILY…]` from words for dbt, which knows it as a variable.

    Args:
        arguments: words of a command line.
        metrics: all families; without a name, the option asks for the grids of all.

    Returns:
        The other words, and those that ask dbt for the grids; none when the option isn't there.

    Raises:
        TokenmartError: an unknown family, or `--vars` beside it.
    """
    rest = list(arguments)
    if "--grids" not in rest:
        return rest, []
    start = end = rest.index("--grids") + 1
    while end < len(rest) and not rest[end].startswith("-"):
        end += 1
    named = rest[start:end]
    for name in named:
        if name not in metrics:
            raise TokenmartError(
                f"--grids {name}: no such family; {did_you_mean(name, metrics)}families: "
                f"{', '.join(metrics)}"
            )
    rest[start - 1 : end] = []
    if "--vars" in rest:
        raise TokenmartError("--grids: can't stand beside --vars; write grids: true among the vars")
    return rest, ["--vars", json.dumps({"grids": named or True})]


def check_variants(project: Path, families: Sequence[Family]) -> None:
    """Raise TokenmartError for the first mistake in variants/*.csv.

    Args:
        project: folder of the dbt project.
        families: all of them, with the columns that each one reads.
    """
    files = sorted((project / "variants").glob("*.csv"))
    settings = read_settings(project) if files else {}
    known = {family.metric: family for family in families}
    for path in files:
        family = known.get(path.stem)
        if family is None:
            raise TokenmartError(
                f"{path}: there is no metric family {path.stem}; {did_you_mean(path.stem, known)}"
                "rename the file after its family, or remove it"
            )
        _check_file(path, family, settings)


def read_variants(path: Path) -> list[Variant]:
    """The rows of a variants file.

    Raises:
        TokenmartError: it has no header, or a row has more or fewer values than columns.
    """
    found = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            columns = next(rows, [])
            _check_header(path, columns)
            for row in rows:
                if row and len(row) != len(columns):
                    raise TokenmartError(
                        f"{path}, line {rows.line_num}: {len(row)} values for {len(columns)} "
                        f"columns: {','.join(row)}; the columns are {','.join(columns)}: leave "
                        "what doesn't apply empty, but keep its comma"
                    )
                if row:
                    settings = dict(zip(columns, row, strict=True))
                    found.append(Variant(rows.line_num, settings["variant"], settings))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); write it as UTF-8 CSV") from error
    return found


def in_contexts(variant: str, contexts: Iterable[str]) -> list[str]:
    """The names of a variant in a problem: one for each context, `""` where none is named."""
    return [f"{variant}@{context}" if context else variant for context in contexts]


def _check_header(path: Path, columns: list[str]) -> None:
    missing = [name for name in _REQUIRED if name not in columns]
    twice = [name for name in columns if columns.count(name) > 1]
    if missing:
        raise TokenmartError(
            f"{path}, line 1: no column {missing[0]}; the first line names the columns, "
            f"{','.join(_REQUIRED)} and what the family reads"
        )
    if twice:
        raise TokenmartError(f"{path}, line 1: column {twice[0]} stands there twice; remove one")


def _check_file(path: Path, family: Family, settings: Mapping[str, Setting]) -> None:
    rows = read_variants(path)
    read = [*COMMON, *family.columns]
    for column in rows[0].settings if rows else ():
        if column not in settings:
            raise TokenmartError(
                f"{path}, line 1: column {column} is unknown; {did_you_mean(column, read)}"
                f"{family.metric} reads {', '.join(read)}; a new column is added in {SETTINGS} "
                "and in the SQL beside it"
            )
        if column not in read:
            raise TokenmartError(
                f"{path}, line 1: column {column} is not read by {family.metric}; remove it, or "
                f"list it under meta.parameters in {family.metric}.yml and read it in "
                f"{family.metric}.sql; it reads {', '.join(read)}"
            )
    names: dict[str, int] = {}
    for row in rows:
        for column, wrong in _mistakes(family, settings, row):
            raise TokenmartError(
                f"{path}, line {row.line}: column {column} of {row.variant or 'the row'} {wrong}"
            )
        if row.variant in names:
            raise TokenmartError(
                f"{path}, line {row.line}: the variant {row.variant} stands in line "
                f"{names[row.variant]} already; rename one"
            )
        names[row.variant] = row.line


def _mistakes(
    family: Family, settings: Mapping[str, Setting], row: Variant
) -> Iterator[tuple[str, str]]:
    """Columns of a row and what is wrong with them."""
    for column in (*_REQUIRED, *family.required(row.settings)):
        if not row.settings.get(column, "").strip():
            yield column, f"is empty; {_wanted(family, settings, column)}"
    if row.settings["metric"] != family.metric:
        yield "metric", f"is {row.settings['metric']!r}; write {family.metric}, as the file's name"
    if not row.variant.isascii() or any(c in "@,'\"" or c.isspace() for c in row.variant):
        yield "variant", "has a space, a quote or @ in it; use letters, digits, _, . and -"
    for column, text in row.settings.items():
        if not text:
            continue
        if wrong := _wrong(settings[column], family.choices(column), text):
            yield column, f"is {text!r}; {wrong}"
        if column not in COMMON and column not in family.read_by(row.settings):
            yield (
                column,
                f"is {text!r}, but a row like this doesn't read it; leave it empty: it reads "
                f"{', '.join(family.read_by(row.settings)) or 'no setting'}",
            )


def _wanted(family: Family, settings: Mapping[str, Setting], column: str) -> str:
    accepted = family.choices(column) or settings[column].accepted
    if accepted:
        return (
            f"write {', '.join(accepted[:-1])} or {accepted[-1]}"
            if accepted[1:]
            else (f"write {accepted[0]}")
        )
    return f"write {_WORDS.get(settings[column].kind, 'a word')}"


def _wrong(setting: Setting, choices: Sequence[str], text: str) -> str:
    """What is wrong with a value, and what to write; empty when nothing is."""
    accepted = choices or setting.accepted
    if accepted and text not in accepted:
        hint = did_you_mean(text, accepted)
        return f"{hint}write one of {', '.join(accepted)}"
    if setting.kind == "boolean" and text != "true":
        return "write true, or leave it empty"
    if setting.kind not in _WORDS:
        return "" if text == text.strip() else "remove the space around it"
    try:
        number = float(text) if setting.kind == "double" else int(text)
    except ValueError:
        return f"write {_WORDS[setting.kind]}"
    if not math.isfinite(number) or not setting.low <= number <= setting.high:
        low = f"at least {setting.low:g}" if setting.low > -math.inf else ""
        high = f"at most {setting.high:g}" if setting.high < math.inf else ""
        return f"write {_WORDS[setting.kind]}, {' and '.join(filter(None, (low, high)))}"
    if setting.power_of_two and not math.log2(number).is_integer():
        below = 2 ** math.floor(math.log2(number))
        return f"write a power of two, for instance {below} or {2 * below}"
    return ""


def _setting(column: Mapping[str, Any]) -> Setting:
    accepted = [
        str(value)
        for test in column.get("data_tests", ())
        if isinstance(test, dict) and "accepted_values" in test
        for value in test["accepted_values"]["arguments"]["values"]
    ]
    meta = (column.get("config") or {}).get("meta", {})
    bounds = meta.get("range", (None, None))
    low, high = (math.nan if bound is None else float(bound) for bound in bounds)
    return Setting(
        str(column.get("data_type", "varchar")),
        tuple(accepted),
        -math.inf if math.isnan(low) else low,
        math.inf if math.isnan(high) else high,
        bool(meta.get("power_of_two")),
    )
