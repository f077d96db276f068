"""HELM's summarised tables and runs: groups, directions, and win rates that are HELM's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from win_rate_oracle import win_rates

from plugins.merging.competition.standings import Standings, rank_file
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))

Columns = Mapping[str, Mapping[str, float | None]]
"""Heading → entry → value."""


def table(title: str, columns: Columns, lower: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A table as HELM's summarize writes it, with its own mean win rate and a column of costs."""
    entries = sorted({entry for column in columns.values() for entry in column})
    rates = [
        win_rates(column, "lower" if name in lower else "higher")
        for name, column in columns.items()
    ]
    header: list[dict[str, Any]] = [
        {"value": "Model"},
        {"value": "Mean win rate", "lower_is_better": False},
        *({"value": name, "lower_is_better": name in lower} for name in columns),
        {"value": "# eval"},
    ]
    rows = []
    for entry in entries:
        own = [rate[entry] for rate in rates if entry in rate]
        cells = [entry, sum(own) / len(own) if own else None]
        cells += [column.get(entry) for column in columns.values()]
        rows.append([{"value": cell} for cell in [*cells, 1000.0]])
    return {"title": title, "header": header, "rows": rows}


def group_rates(found: Standings) -> dict[tuple[str, str], float | None]:
    return {
        (row["task_group"], row["entry"]): row["mean_win_rate"]
        for row in found.marts["ranking_tasks"]
    }


def own_rates(tables: list[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    """The mean win rates that the tables themselves have."""
    return {
        (each["title"], row[0]["value"]): row[1]["value"] for each in tables for row in each["rows"]
    }


def test_win_rates_of_summarised_tables_are_the_tables_own(tmp_path: Path) -> None:
    tables = [
        table("Accuracy", {
            "MMLU - EM": {"a": 0.5, "b": 0.6, "c": 0.6}, "QA - F1": {"a": 0.9, "b": None, "c": 0.1}
        }),
        table("Robustness", {"MMLU - EM (Robustness)": {"a": 0.4, "b": 0.2, "c": 0.3}}),
        table("Bias", {"QA - Stereotypes (race)": {"a": 0.1, "b": 0.2, "c": 0.3}},
              frozenset(["QA - Stereotypes (race)"])),
    ]  # fmt: skip
    path = tmp_path / "core_scenarios.json"
    path.write_text(json.dumps(tables))
    found = rank_file(path, WORKSPACE, draws=0)
    expected = own_rates(tables)
    assert group_rates(found) == {key: pytest.approx(value) for key, value in expected.items()}
    assert expected["Bias", "a"] == 1 and expected["Accuracy", "b"] == 0.75
    path.write_text(json.dumps(tables[1]))  # a file of one table
    assert set(group_rates(rank_file(path, WORKSPACE, draws=0))) == {
        ("Robustness", entry) for entry in "abc"
    }


def run(folder: Path, model: str, subject: str, values: Mapping[str, float]) -> None:
    place = folder / f"mmlu-subject={subject},model={model}"
    place.mkdir(parents=True)
    spec = {"name": f"mmlu:subject={subject},model={model}", "adapter_spec": {"model": model}}
    (place / "run_spec.json").write_text(json.dumps(spec))
    worst = {"robustness": False, "fairness": False, "computed_on": "worst"}
    stats: list[dict[str, Any]] = [
        {"name": {"name": "exact_match", "split": "valid"}, "count": 1, "mean": 0.99},
        {"name": {"name": "inference_runtime", "split": "test"}, "count": 1, "mean": 3.0},
    ]
    for group, value in values.items():
        name: dict[str, Any] = {"name": "exact_match", "split": "test"}
        if group:
            name["perturbation"] = {"name": group, **worst}
        stats.append({"name": name, "count": 1, "mean": value})
        stats.append({
            "name": {**name, "perturbation": {"name": "typos", "computed_on": "original"}},
            "count": 1, "mean": 0.0,
        })  # fmt: skip
    stats.append({"name": {"name": "f1_score", "split": "test"}, "count": 0, "sum": 0})
    (place / "stats.json").write_text(json.dumps(stats))


def test_runs_have_perturbed_values_in_groups_of_their_own(tmp_path: Path) -> None:
    for model, shift in (("org/a", 0.0), ("org/b", 0.1)):
        for subject in ("law", "logic"):
            values = {"": 0.5 + shift, "robustness": 0.4 - shift, "fairness": 0.3}
            run(tmp_path / "runs", model, subject, values)
    found = rank_file(tmp_path / "runs", WORKSPACE, draws=0, metrics=["exact_match"])
    assert group_rates(found) == {
        ("unperturbed", "org/a"): 0, ("unperturbed", "org/b"): 1,
        ("robustness", "org/a"): 1, ("robustness", "org/b"): 0,
        ("fairness", "org/a"): 0.5, ("fairness", "org/b"): 0.5,
    }  # fmt: skip
    words = ["rank", "show", "--results", str(tmp_path / "runs"), "--draws", "0"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1
    assert "name with --metric what" in done.stderr and "exact_match, f1_score" in done.stderr
    done = CliRunner().invoke(cli, [*words, "--metric", "exact_match"])
    assert done.exit_code == 0 and "org/b" in done.output
    with pytest.raises(TokenmartError, match="--metric bleu_9: not in"):
        rank_file(tmp_path / "runs", WORKSPACE, metrics=["bleu_9"])
    with pytest.raises(TokenmartError, match="doesn't show whether lower is better"):
        rank_file(tmp_path / "runs", WORKSPACE, metrics=["inference_runtime"])


def test_other_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, message in (
        ('{"a": 1}', "has no tables with 'header' and 'rows'"),
        ('{"header": [{"value": "Model"}, {"value": "n"}], "rows": []}', "nothing is ranked"),
        (
            '{"header": [{"value": "Model"}, {"value": "n", "lower_is_better": true}],'
            ' "rows": [[{"value": "a"}]]}',
            "a row of 1 cells under 2 headings",
        ),
        ('{"header": ["Model"], "rows": []}', "x.json: a part of it is not as HELM writes it"),
    ):
        path.write_text(text)
        with pytest.raises(TokenmartError, match=message):
            rank_file(path, WORKSPACE)
