"""`tokenmart metrics`: the catalogue on the terminal, and a new metric that builds at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse

from warehouse.metrics_cli import metrics


@pytest.fixture
def cli(built: Warehouse, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(built.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(built.database))
    return CliRunner()


def test_list_names_every_metric_with_its_formula(cli: CliRunner) -> None:
    shown = cli.invoke(metrics, ["list"])
    assert shown.exit_code == 0, shown.output
    assert "longppl_external" in shown.output
    assert "not admissible" in shown.output
    rows = json.loads(cli.invoke(metrics, ["list", "--admissible", "--json"]).output)
    assert len(rows) >= 300
    assert all(row["admissible"] and row["formula"] for row in rows)


def test_show_prints_values_and_what_ranks_alike(cli: CliRunner, built: Warehouse) -> None:
    shown = json.loads(cli.invoke(metrics, ["show", "perplexity", "micro", "--json"]).output)
    assert {row["model_id"]: row["value"] for row in shown["values"]} == {
        model: value
        for (variant, model), value in built.values("perplexity").items()
        if variant == "micro"
    }
    assert all(abs(row["spearman"]) <= 1 + 1e-9 for row in shown["alike"])
    assert len(shown["alike"]) == 5


def test_an_unknown_metric_is_named_with_the_known_ones(cli: CliRunner) -> None:
    shown = cli.invoke(metrics, ["show", "perplexitty"])
    assert shown.exit_code == 1
    assert "perplexitty" in shown.output
    assert "perplexity" in shown.output


@pytest.mark.parametrize("name", ["Bad-Name", "perplexity", "9lives"])
def test_new_refuses_bad_and_taken_names(cli: CliRunner, name: str) -> None:
    shown = cli.invoke(metrics, ["new", name])
    assert shown.exit_code == 1
    assert name in shown.output


def test_new_metrics_build_and_pass_their_tests(
    built: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "dbt_project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    monkeypatch.setenv("TOKENMART_HOME", str(tmp_path))
    for arguments in (["late_surprise"], ["look_back", "--context", "window"]):
        done = CliRunner().invoke(metrics, ["new", *arguments])
        assert done.exit_code == 0, done.output
    database = tmp_path / "tokenmart.duckdb"
    shutil.copy(built.database, database)
    chosen = ["stg_metric_variants", "late_surprise+", "look_back+"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dbt")), "build", "--quiet", "--select", *chosen],
        cwd=project,
        env={
            **os.environ,
            "TOKENMART_DATA": str(built.data),
            "TOKENMART_DATABASE": str(database),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    values = Warehouse(built.data, database).values("look_back")
    gains = built.values("context_gain")
    assert values["micro@window_64", "lab--model-0"] == pytest.approx(
        gains["mean@window_64", "lab--model-0"]
    )
