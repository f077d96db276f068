"""Convert the scores that the competition's site publishes as JSON to a plain table.

`assets/data/plot-data-combined-all.json` of github.com/e2lmc/e2lmc.github.io: `metadata` names the
benchmarks (`metrics`), `data` has for each model lists of one length, `gtokens` and the benchmarks.
All its scores are accuracies.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plugins.benchmarks.json_files import parse_json
from plugins.benchmarks.refusal import refused
from warehouse.errors import TokenmartError
from warehouse.files import read_text

_HEADER = ("model", "size", "arch", "tokens_bt", "benchmark", "score", "direction")


@contextmanager
def plain_table(path: Path) -> Iterator[Path]:
    """The path of a plain table; the site's JSON is converted, other files are returned unchanged.

    Raises:
        TokenmartError: a JSON file in another form.
    """
    if path.suffix.lower() != ".json":
        yield path
        return
    rows = list(_rows(path))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / f"{path.stem}.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_HEADER, *rows])
        try:
            yield table
        except TokenmartError as error:  # the file that the user has, not this one
            message, where = (
                each.replace(str(table), str(path)) for each in (error.message, error.where)
            )
            raise TokenmartError(message, code=error.code, where=where) from error


def _rows(path: Path) -> Iterator[tuple[Any, ...]]:
    try:
        found = parse_json(read_text(path), str(path))
        benchmarks = found["metadata"]["metrics"]
        models = found["data"].items()
    except (KeyError, TypeError, AttributeError) as error:
        raise refused(
            path,
            "not the JSON of the competition's site (`metadata.metrics` and `data` by model); give "
            "a CSV, JSON lines or Parquet file",
            "no-site-json",
        ) from error
    for model, columns in models:
        if not isinstance(columns, dict):
            raise refused(path, f"{model}: no columns; fetch the file again", "site-columns")
        tokens = columns.get("gtokens") or []
        _, _, shape = model.partition("-")
        size, _, architecture = shape.partition("-")
        for benchmark in benchmarks:
            scores = columns.get(benchmark) or []
            if len(scores) != len(tokens):
                raise refused(
                    path,
                    f"{model}: {len(scores)} scores of {benchmark} at {len(tokens)} checkpoints "
                    "(gtokens); fetch the file again",
                    "site-columns",
                )
            for point, score in zip(tokens, scores, strict=True):
                if score is not None:
                    yield model, size, architecture, point, benchmark, score, "higher"
