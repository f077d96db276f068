"""`tokenmart metrics`: the catalogue on the terminal."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse
from scipy.stats import spearmanr

from warehouse.errors import TokenmartError
from warehouse.metrics.cli import metrics
from warehouse.sql.dataframes import cookbook


@pytest.fixture
def cli(built: Warehouse, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(built.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(built.database))
    return CliRunner()


def test_the_catalogue_needs_no_build_and_is_that_of_the_build(cli, built, tmp_path, monkeypatch):
    fields = ("family", "direction", "admissible", "transform", "caution", "formula", "core")
    columns = ", ".join(fields).replace("admissible", "is_admissible").replace("core", "is_core")
    query = f"select metric, split_part(variant, '@', 1), {columns} from metric_catalog"
    expected = {row[:2]: row[2:] for row in built.rows(query)}
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    rows = json.loads(cli.invoke(metrics, ["list", "--json"]).stdout)
    assert {
        (row["metric"], row["variant"]): tuple(row[field] for field in fields) for row in rows
    } == expected
    in_words = cli.invoke(metrics, ["show", "longppl"])
    assert in_words.exit_code == 0, in_words.output
    assert "longppl: lower is better\nCaution: selects on success" in in_words.stdout
    assert "gain > 0.1 and nll < 1" in in_words.stdout


@pytest.mark.parametrize(
    "metric",
    [
        "perplexity",
        pytest.param("longppl_external", marks=pytest.mark.slow),
        pytest.param("retrieval_gain", marks=pytest.mark.slow),
    ],
)
def test_near_duplicates_have_scipys_rank_correlation(cli, built, metric):
    """Every variant against every variant of every metric, over the models both have."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for name, variant, model, value in built.rows(
        "select metric, variant, model_id, value from metric_values where isfinite(value)"
    ):
        values.setdefault((name, variant), {})[model] = value
    expected = {}
    for (name, variant), mine in values.items():
        if name != metric:
            continue
        by_models: dict[tuple[str, ...], dict[tuple[str, str], list[float]]] = {}
        for other, theirs in values.items():
            common = tuple(sorted(mine.keys() & theirs.keys()))
            column = [theirs[model] for model in common]
            if other != (metric, variant) and len(common) > 2 and len(set(column)) > 1:
                by_models.setdefault(common, {})[other] = column
        for common, columns in by_models.items():
            own = [mine[model] for model in common]
            if len(set(own)) > 1:
                rhos = spearmanr(np.column_stack([own, own, *columns.values()])).statistic[0, 2:]
                for other, rho in zip(columns, rhos, strict=True):
                    expected[(variant, *other)] = (len(common), pytest.approx(rho, abs=1e-12))
    rows = cookbook("near_duplicates", metric=metric, neighbours=10**6).to_pylist()
    keys = ("variant", "other_metric", "other_variant")
    assert len(expected) > 300
    assert {tuple(r[k] for k in keys): (r["models"], r["rho"]) for r in rows} == expected
    closest = cookbook("near_duplicates", metric=metric, neighbours=1)["rho"].to_pylist()
    assert len(closest) == len({row["variant"] for row in rows}) and min(map(abs, closest)) > 0.9


def test_names_in_a_problem_are_those_that_its_values_get(monkeypatch, tmp_path):
    """Before a build, for every variant: the published values of minilong are among them."""
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    shown = CliRunner().invoke(metrics, ["list", "--problem", "minilong"])
    assert shown.exit_code == 0, shown.output
    *lines, last = shown.stdout.splitlines()
    core = [n for n, line in enumerate(lines) if "  (grid)" not in line]
    assert core == list(range(len(core))), "the core comes first"
    assert last.startswith(f"{len(lines)} variants; {len(core)} in the core")
    names = [line.split("  ")[0] for line in lines]
    assert len(names) == len(set(names)) > 300
    published = PROJECT.parent / "studies" / "minilong" / "tables" / "metric_values.parquet"
    valued = duckdb.sql(f"select distinct metric || '/' || variant from '{published}'").fetchall()
    assert {name for (name,) in valued} <= set(names)
    assert {"retrieval_gain/mean@retrieval", "perplexity/micro"} <= set(names)
    assert not any(name.startswith("ladder_gain/") for name in names)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "perplexitty"), "unknown-metric"),
        (("list", "--metric", "p\udcff"), "unknown-metric"),
        (("list", "--metric", "ladder_gain", "--problem", "no4k"), "no-metric"),
    ],
)
def test_an_unknown_name_is_refused(cli, words, code):
    with pytest.raises(TokenmartError) as caught:
        cli.invoke(metrics, words, catch_exceptions=False, standalone_mode=False)
    assert caught.value.code == code


def test_names_in_a_problem_are_narrowed(cli):
    def listed(metric: str) -> list[dict[str, Any]]:
        words = ["list", "--problem", "no4k", "--metric", metric, "--json"]
        return list(json.loads(cli.invoke(metrics, words).stdout))

    assert {row["variant"].partition("@")[2] for row in listed("rank_gain")} == {"window_4096"}
    gains = listed("retrieval_gain")
    assert (len(gains), sum(row["core"] for row in gains)) == (15, 3)
    assert {row["admissible"] for row in listed("longppl_external")} == {False}
