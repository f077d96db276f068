"""`tm.correlate`: the numbers of the command, for values in a mapping or in any table."""

from __future__ import annotations

import csv
import json
import math

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tokenmart as tm
from analysis.ranking import cli
from warehouse.errors import TokenmartError

FLAT = {"ci95_low": "low", "ci95_high": "high"}


def values_of(minilong) -> dict[str, float]:
    models = minilong.models("minilong")
    return {model: math.sin(place) for place, model in enumerate(models)}


def commanded(*arguments):
    command = ["--problem", "minilong", "--json", "--resamples", "100", *map(str, arguments)]
    result = CliRunner().invoke(cli.correlate, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_numbers_of_the_command(minilong, tmp_path):
    values = values_of(minilong)
    file = tmp_path / "values.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("model_id", "value"), *values.items()])
    record = commanded("--values", file, "--name", "mine", "--better", "lower")
    found = tm.correlate(values, "minilong", name="mine", better="lower").to_pylist()
    assert len(found) == len(record["rows"]) == 9
    for row, expected in zip(found, record["rows"], strict=True):
        interval = expected["spearman_ci95_after_choice"]
        for name, value in row.items():
            if name == "baseline":
                assert value is (f"{row['metric']}/{row['variant']}" == record["baseline"])
            else:
                assert value == (interval[FLAT[name]] if name in FLAT else expected[name]), name
    # the file and the mapping are one idea
    assert found[0]["variant"] == record["rows"][0]["variant"]
    assert commanded()["tested"]["all"] == record["tested"]["all"] == 9


def test_any_table_and_a_missing_value(minilong):
    values = values_of(minilong)
    first = next(iter(values))
    mapping = tm.correlate({**values, first: None}, "minilong")
    assert mapping["n"][0].as_py() == 22
    numbers = [math.nan if model == first else value for model, value in values.items()]
    data = {"model_id": list(values), "value": numbers}
    frame, arrow = pd.DataFrame(data), pa.table(data)
    given = [arrow, frame, frame.set_index("model_id"), pl.DataFrame(data)]
    for table in (*given, duckdb.from_arrow(arrow)):
        assert tm.correlate(table, "minilong").equals(mapping), type(table)


def test_metrics_alone_and_every_kind_of_result(minilong):
    rows = tm.correlate(None, "minilong")
    assert rows["kind"].unique().to_pylist() == ["variant"]
    assert tm.correlate(None, "minilong", into="pandas")["spearman"].tolist() == (
        rows["spearman"].to_pylist()
    )
    assert tm.correlate(None, "minilong", into="polars").to_arrow().num_rows == rows.num_rows
    assert len(tm.correlate(None, "minilong", into="relation").fetchall()) == rows.num_rows


THREE = {"?": 1.0, "gemma3-270m": 2.0, "smollm2-135m-noise-0.15": 3.0}


@pytest.mark.parametrize(
    ("values", "options", "code", "where"),
    [
        ({"nobody": 1.0}, {}, "unknown-model", "values: row 1"),
        ({"?": "high"}, {}, "float-parsing", "values: row 1: value"),
        ({"?": True}, {}, "value-error", "values: row 1: value"),
        ({"?": math.inf}, {}, "finite-number", "values: row 1: value"),
        ({"?": None}, {}, "too-few-values", "values"),
        ([1.0], {}, "not-a-table", "values"),
        (pa.table({"model": ["a"]}), {}, "missing", "values: row 1: model_id"),
        ({"?": 1.0}, {"name": "My idea"}, "bad-name", "name"),
        (THREE, {"name": "perplexity"}, "name-taken", "name"),
        ({"?": 1.0}, {"better": "more"}, "bad-direction", "better"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_recorded(minilong, values, options, code, where):
    if isinstance(values, dict):
        first = minilong.models("minilong")[0]
        values = {first if model == "?" else model: value for model, value in values.items()}
    with pytest.raises(TokenmartError) as failed:
        tm.correlate(values, "minilong", **options)
    assert (failed.value.code, failed.value.where) == (code, where)
    assert not (minilong.workspace.data / "tested").exists()
