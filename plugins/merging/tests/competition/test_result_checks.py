"""Notes on results: values on another scale, names that differ only in case, repeated rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from plugins.merging.next_steps.rankings import next_steps

from plugins.merging.competition.ranking_table import same_names
from tokenmart import cli

VALUES = {"anna": 0.412, "bert": 0.4, "cleo": 0.39, "dora": 0.3}
ROUNDS = {"open": 1, "hidden": 2, "trial": 0}
PERCENT = (
    "warning: qa, round {}: the values of anna are percent, those of other entries fractions; they "
    "are ranked as they are: write all values on one scale"
)
LACKING = "dora: no result in code, round {}; ranked without it, which may raise its score"


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


def test_percent_beside_fractions_is_noted(results: Path, tmp_path: Path, data: Path) -> None:
    _, noted = run("import", "--problem", "mixed", results)
    printed, _ = run("show", "--results", results, "--draws", "0")
    page = tmp_path / "page.html"
    run("report", "--results", results, "--draws", "0", "--out", page)
    for text in (noted, printed, page.read_text()):
        assert [PERCENT.format(name) in text for name in ROUNDS] == [True, False, True]
        assert "loss, round" not in text  # lower is better: any size may be right
    as_json, _ = run("show", "--results", results, "--draws", "0", "--json")
    found = json.loads(as_json)["mixed_scales"]
    column = {"task": "qa", "metric": "score", "entries": ["anna"], "scale": "percent"}
    assert found == [{"round": name, **column} for name in ("open", "trial")]


def test_a_single_fraction_beside_percent_is_the_one_named(tmp_path: Path) -> None:
    """With items, the value of an entry is its mean: 0.5 beside 50."""
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},qa,{item},{(item % 2) * scale}"
        for entry, scale in (("a", 100), ("b", 1), ("c", 100))
        for item in range(8)
    ]
    path.write_text("\n".join(["entry,task,item,value", *rows]) + "\n")
    said = "the values of b are fractions, those of other entries percent"
    assert said in run("show", "--results", path, "--draws", "0")[0]


def test_values_on_one_scale_have_no_note(results: Path) -> None:
    printed, _ = run("show", "--results", results, "--round", "hidden", "--draws", "0")
    assert "warning" not in printed and "ranked without" not in printed
    as_json, _ = run("show", "--results", results, "--draws", "0", "--json", "--round", "hidden")
    assert json.loads(as_json)["mixed_scales"] == []


def test_the_overall_ranking_has_the_notes_of_its_rounds(results: Path, tmp_path: Path) -> None:
    """Those of open and hidden, but not those of trial, which has no weight."""
    results.write_text(results.read_text().replace(",higher,", ",,"))
    page = tmp_path / "page.html"
    words = ["--results", results, "--draws", "0", "--round", "overall"]
    printed, assumed = run("show", *words)
    as_json = json.loads(run("show", *words, "--json")[0])
    run("report", *words, "--out", page)
    for text in (printed, page.read_text()):
        assert PERCENT.format("open") in text and LACKING.format("open") in text
        assert "trial" not in text
    assert [row["round"] for row in as_json["ranking_missing"]] == ["open"]
    assert {row["round"] for row in as_json["rankings"]} == {"overall"}
    assert "no direction given: higher is better for code, qa" in assumed
    whole, _ = run("show", *words[:-2])
    assert whole.count(LACKING.format("open")) == 1


def test_the_import_counts_columns_and_rounds(results: Path, data: Path) -> None:
    """Four entries, three tasks and rounds, without dora's two missing results: 34 results."""
    said, _ = run("import", "--problem", "counted", results)
    assert said.startswith(
        "counted: 34 results of 4 entries in 3 columns (a task and a metric each) and 3 rounds; "
    )
    refused = run("import", "--problem", "counted", results, code=1)[1]
    assert "results of this name are here; replace them with --force" in refused
    missing = run("import", "--problem", "counted", "no_such_file.csv", code=1)[1]
    assert missing == "error: no_such_file.csv: no such file; correct the path\n"


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_missing_file_of_results_is_named_before_the_output(tmp_path: Path, command: str) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    said = run(command, "--results", tmp_path / "no.csv", "--out", other, code=1)[1]
    assert said == f"error: {tmp_path / 'no.csv'}: no such file; correct the path\n"


def test_rounds_tasks_metrics_and_groups_that_may_be_one_are_asked_about(tmp_path: Path) -> None:
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [
        f"{entry},{task},{metric},{group},{value},{name}"
        for name, task, metric, group in (
            ("open", "qa", "acc", "all"),
            ("open", "q-a", "f1", "all"),
            ("open", "nli", "F1", "Logic"),
            ("open", "sum", "acc", "logic"),
            ("hidden", "Sum", "ACC", "ALL"),
        )
        for entry, value in (("a", 1), ("b", 0.5))
    ]
    rows += ["c,Sum,ACC,ALL,1,Hidden"]
    path.write_text("\n".join(["entry,task,metric,task_group,value,round", *rows]) + "\n")
    printed, noted = run("show", "--results", path, "--draws", "0")
    assert [line for line in noted.splitlines() if "same as" in line] == [
        "round Hidden: is it the same as hidden?",
        "task q-a, round open: is it the same as qa?",
        "metric F1, round open: is it the same as f1?",
        "group Logic, round open: is it the same as logic?",
    ]
    run("report", "--results", path, "--draws", "0", "--out", page)
    for text in (printed, page.read_text()):
        assert "in all of them; round Hidden: is it the same as hidden?" in text
    for shown in ("open", "hidden"):
        _, noted = run("show", "--results", path, "--draws", "0", "--round", shown)
        assert "Hidden" not in noted


def test_names_are_compared_without_case_and_separators() -> None:
    names = ["Final round", "final_round", "final-round", "open", "final"]
    assert same_names("round", names) == [
        "round Final round: is it the same as final-round or final_round?"
    ]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (",3", "give score of a on qa, item 3, in round results; remove one\n"),
        (",", "give score of a on qa in round results; remove one (or give each an item)\n"),
    ],
)
def test_a_repeated_row_is_named_with_its_item(tmp_path: Path, item: str, said: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text("\n".join(["entry,task,value,item", *(2 * [f"a,qa,1{item}"])]) + "\n")
    refused = run("show", "--results", path, code=1)[1]
    assert refused == f"error: {path}: rows 1 and 2 both {said}"


def test_the_note_on_drops_names_entries_that_the_open_round_does_not_rank(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},qa,{value},{name}"
        for name in ("open", "hidden")
        for entry, value in (("a", 3), ("b", 2), ("c", "" if name == "open" else 1))
    ]
    path.write_text("\n".join(["entry,task,value,round", *rows]) + "\n")
    printed, _ = run("show", "--results", path, "--draws", "0")
    assert "2 of 3 entries were compared in the open round (not ranked: c); the score" in printed
    assert printed.index("round open") < printed.index("round hidden")


def test_the_command_that_shows_a_ranking_follows_its_build() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table rankings as select 'challenge' as problem from range(2)")
        assert next_steps(connection) == {"challenge": ["tokenmart rank show --problem challenge"]}
