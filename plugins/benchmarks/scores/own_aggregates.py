"""Check items of another program's results against the aggregate that the program wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from warehouse.errors import TokenmartError, did_you_mean, visible
from warehouse.text_file import parse_json, read_text

TOLERANCE = 1e-6
"""Relative tolerance; aggregates are means in double precision with all digits."""


def read_aggregate(path: Path) -> dict[str, Any]:
    """The JSON object of an aggregate file; empty if there is no such file.

    Raises:
        TokenmartError: the file is not a JSON object.
    """
    if not path.is_file():
        return {}
    found = parse_json(read_text(path), str(path))
    if not isinstance(found, dict):
        raise TokenmartError(f"{path}: contains no JSON object; correct or remove it")
    return found


def chosen_metric(path: Path, names: Sequence[str], wanted: str | None, own: str | None) -> str:
    """The metric to import: the given one, the program's own primary metric, or the only one.

    Raises:
        TokenmartError: the file has no such metric, or several and none is given.
    """
    if wanted is not None and wanted not in names:
        raise TokenmartError(
            f"--metric {wanted}: not in {path}; {did_you_mean(wanted, list(names))}its metrics: "
            f"{', '.join(names)}"
        )
    if wanted is None and own in names:
        return str(own)
    if wanted is None and len(names) != 1:
        raise TokenmartError(
            f"{path}: contains {len(names)} metrics; use --metric with one of: {', '.join(names)}"
        )
    return wanted or names[0]


def is_number(value: Any) -> bool:
    """Whether a value of JSON or Parquet is a number or a truth value."""
    return isinstance(value, bool | int | float)


def item_score(place: str, metrics: Mapping[str, Any], metric: str) -> float:
    """An item's value as a number.

    Raises:
        TokenmartError: the value is missing, or not a finite number.
    """
    value = metrics.get(metric)
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenmartError(
            f"{place}: {metric} is {value!r}, expected a finite number; correct or remove the item"
        )
    return float(value)


def refuse_lower(summary: Path, name: str) -> None:
    """Stop at a metric of which lower values are better: a target's higher values are better.

    Raises:
        TokenmartError: always.
    """
    raise TokenmartError(
        f"{summary}: lower is better in {name}; import it as a plain table with the sign reversed, "
        "or leave it out"
    )


def refuse_other_count(path: Path, summary: Path, found: int, own: Any) -> None:
    """Stop if a file has more or fewer items than the program's own number; None isn't compared.

    Raises:
        TokenmartError: items are missing.
    """
    if isinstance(own, int) and own != found:
        raise TokenmartError(
            f"{path}: contains {found} items, and {summary} has {own}: the file is incomplete, or "
            "of another run; fetch both again"
        )


def refuse_other_mean(
    path: Path, summary: Path, metric: str, scores: Sequence[float], own: Any
) -> None:
    """Raise an error if the program's own aggregate differs from the mean of the items.

    Without an aggregate, a note on standard error states that nothing was compared.

    Args:
        path: file of the items.
        summary: file of the program's own aggregates.
        metric: name of the metric.
        scores: scores of the items.
        own: the aggregate; None if unknown.

    Raises:
        TokenmartError: items are missing, or the metric is not a mean over items.
    """
    if not isinstance(own, int | float) or isinstance(own, bool):
        cause = f"has no value of {metric}" if summary.is_file() else "is not there"
        note = f"note: {path}: {metric} was not compared with its aggregate: {summary} {cause}"
        click.echo(visible(note), err=True)
        return
    mean = math.fsum(scores) / len(scores)
    if not math.isclose(mean, own, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise TokenmartError(
            f"{path}: the mean of {metric} over {len(scores)} items is {mean:.6g}, and {summary} "
            f"has {own:.6g}: items are missing, or {metric} is no mean of items; import the whole "
            "file, or another metric"
        )
