"""HELM's summarised tables and runs: groups, directions, and win rates that are HELM's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from win_rate_oracle import win_rates

from plugins.merging.competition.helm import plain_results
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
        ('{"header": ["Model"], "rows": []}', "x.json: not in the form of HELM.s files"),
    ):
        path.write_text(text)
        with pytest.raises(TokenmartError, match=message):
            rank_file(path, WORKSPACE)


def test_a_result_that_is_there_twice_is_named_by_helm_s_files(tmp_path: Path) -> None:
    """Two suites of the same runs, or a model served in two ways."""
    for suite in ("v1", "v2"):
        run(tmp_path / "runs" / suite, "org/a", "law", {"": 0.5})
    with pytest.raises(TokenmartError, match=r"runs/v1/\S+ and \S+runs/v2/\S+ both give exact_"):
        rank_file(tmp_path / "runs", WORKSPACE, draws=0, metrics=["exact_match"])
    path = tmp_path / "core.json"
    twice = table("Accuracy", {"MMLU - EM": {"a": 0.5, "b": 0.25}})
    twice["rows"].append(twice["rows"][0])
    path.write_text(json.dumps(twice))
    with pytest.raises(
        TokenmartError, match=r"row 1, column 3 .* and row 3, column 3 .* both give"
    ):
        rank_file(path, WORKSPACE, draws=0)
    twice["rows"][2] = [{"value": "c"}, {"value": None}, {"value": "0.5"}, {"value": 9}]
    path.write_text(json.dumps(twice))
    with pytest.raises(TokenmartError, match=r"core.json: row 3, column 3 .* is '0.5', expected a"):
        rank_file(path, WORKSPACE, draws=0)


def test_columns_without_a_direction_are_named(tmp_path: Path) -> None:
    path = tmp_path / "core.json"
    path.write_text(json.dumps(table("Accuracy", {"MMLU - EM": {"a": 0.5, "b": 0.25}})))
    found = rank_file(path, WORKSPACE, draws=0)
    assert found.notes == ("direction none: Accuracy (# eval) left out of the ranking",)


@pytest.mark.parametrize(
    "content",
    [
        {"header": ["Model", "EM"], "rows": []},
        {
            "header": [{"value": "Model"}, {"value": "EM", "lower_is_better": False}],
            "rows": [[{}, None]],
        },
        {"header": [{"value": "Model"}, {"value": "EM", "lower_is_better": False}], "rows": {}},
    ],
)
def test_tables_in_another_form_are_one_line(tmp_path: Path, content: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TokenmartError, match=r"x.json: (not in the form of|contains no result)"):
        rank_file(path, WORKSPACE, draws=0)


@pytest.mark.parametrize("spec", [[1], {"name": "x"}])
def test_runs_in_another_form_are_one_line(tmp_path: Path, spec: Any) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "stats.json").write_text("[]")
    (tmp_path / "r" / "run_spec.json").write_text(json.dumps(spec))
    with pytest.raises(TokenmartError, match="not in the form of HELM's files"):
        rank_file(tmp_path, WORKSPACE, draws=0, metrics=["exact_match"])


def test_a_validation_split_is_another_task_than_a_test_split(tmp_path: Path) -> None:
    for model, split in (("org/a", "test"), ("org/b", "valid")):
        folder = tmp_path / model
        folder.mkdir(parents=True)
        spec = {"name": f"qa:model={model}", "adapter_spec": {"model": model}}
        (folder / "run_spec.json").write_text(json.dumps(spec))
        name = {"name": "exact_match", "split": split}
        (folder / "stats.json").write_text(json.dumps([{"name": name, "count": 1, "mean": 0.5}]))
    with plain_results(tmp_path, ["exact_match"]) as table:
        text = table.read_text()
    assert "org/a,unperturbed,qa," in text and "org/b,unperturbed,qa (valid)," in text
