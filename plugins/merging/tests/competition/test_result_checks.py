"""Notes on results: values on another scale, missing ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tokenmart import cli

VALUES = {"anna": 0.412, "bert": 0.4, "cleo": 0.39, "dora": 0.3}
ROUNDS = {"open": 1, "hidden": 2, "trial": 0}


def run(*words: str | Path, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(cli, ["rank", *map(str, words)])
    assert done.exit_code == code, done.output
    return " ".join(done.stdout.split()), done.stderr


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three rounds; anna's qa is percent in open and trial, and dora has no code in them."""
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["entry", "task", "task_group", "round", "round_weight", "direction", "value"]
        )
        for name, weight in ROUNDS.items():
            for entry, value in VALUES.items():
                other = name != "hidden"
                percent = 100 if (entry == "anna") and other else 1
                rows.writerow([entry, "qa", "all", name, weight, "higher", value * percent])
                if not (other and entry == "dora"):
                    rows.writerow([entry, "code", "all", name, weight, "higher", value])
                rows.writerow([entry, "loss", "all", name, weight, "lower", value * percent])
    return path


def shown(results: Path, *more: str) -> dict[str, Any]:
    text = run("show", "--results", results, "--draws", "0", "--json", *more)[0]
    return dict(json.loads(text))


def test_percent_beside_fractions_is_noted(results: Path, tmp_path: Path, data: Path) -> None:
    _, noted = run("import", "--problem", "mixed", results)
    printed, _ = run("show", "--results", results, "--draws", "0", "--explain")
    page = tmp_path / "page.html"
    run("report", "--results", results, "--draws", "0", "--out", page)
    for text in (noted, printed, page.read_text()):
        assert "qa, round hidden" not in text and text.count("warning: qa, round ") == (
            1 if text is noted else 3
        )
        assert "loss, round" not in text  # lower is better: any size may be right
    column = {"task": "qa", "metric": "score", "entries": ["anna"], "scale": "percent"}
    found = [{"round": name, **column} for name in ("open", "trial")]
    assert shown(results)["mixed_scales"] == found


def test_a_single_fraction_beside_percent_is_the_one_named(tmp_path: Path) -> None:
    """With items, the value of an entry is its mean: 0.5 beside 50."""
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},qa,{item},{(item % 2) * scale}"
        for entry, scale in (("a", 100), ("b", 1), ("c", 100))
        for item in range(8)
    ]
    path.write_text("\n".join(["entry,task,item,value", *rows]) + "\n")
    (found,) = shown(path)["mixed_scales"]
    assert (found["entries"], found["scale"]) == (["b"], "fractions")


def test_the_overall_ranking_has_the_notes_of_its_rounds(results: Path, tmp_path: Path) -> None:
    """Those of open and hidden, but not those of trial, which has no weight."""
    page = tmp_path / "page.html"
    words = ["--results", results, "--draws", "0", "--round", "overall"]
    printed, _ = run("show", *words)
    run("report", *words, "--out", page)
    for text in (printed, page.read_text()):
        assert "qa, round open: values of anna" in text and "dora: no result in code" in text
        assert "trial" not in text
    found = shown(results, "--round", "overall")
    assert [(row["round"], row["code"]) for row in found["ranking_missing"]] == [
        ("open", "no-result")
    ]
    assert {row["round"] for row in found["rankings"]} == {"overall"}
    assert shown(results, "--round", "hidden")["mixed_scales"] == []


def test_a_result_without_another_to_compare_with(tmp_path: Path) -> None:
    rows = [f"{entry},all,{task},{value}" for task in "xy" for entry, value in (("a", 1), ("b", 2))]
    path = tmp_path / "results.csv"
    path.write_text("\n".join(["entry,task_group,task,value", *rows, "a,all,z,9"]) + "\n")
    (row,) = shown(path)["ranking_missing"]
    assert (row["entry"], row["task"], row["code"]) == ("a", "z", "alone")


def test_the_import_counts_columns_and_rounds(results: Path, data: Path) -> None:
    """Four entries, three tasks and rounds, without dora's two missing results: 34 results."""
    said, noted = run("import", "--problem", "counted", results)
    assert said.startswith("counted: 34 results of 4 entries in 3 columns")
    assert "dora: no result in code" in noted
    run("import", "--problem", "counted", results, code=1)
    missing = run("import", "--problem", "counted", "no_such_file.csv", code=1)[1]
    assert "no_such_file.csv" in missing and len(missing.splitlines()) == 1


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_missing_file_of_results_is_named_before_the_output(tmp_path: Path, command: str) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    said = run(command, "--results", tmp_path / "no.csv", "--out", other, code=1)[1]
    assert str(tmp_path / "no.csv") in said and other.read_text() == "mine"
