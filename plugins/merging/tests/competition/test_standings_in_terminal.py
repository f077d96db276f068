"""`tokenmart rank show` in a terminal: at most 25 lines of 80 characters, the rest on request."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from tokenmart import cli

ENTRIES = [f"lab/an-entry-with-a-long-name-{size}B@step-120000" for size in range(1, 31)]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Thirty entries in two rounds of four tasks with eight items; one failed, one is percent."""
    draw = np.random.default_rng(0)
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("entry", "task", "task_group", "value", "direction", "round", "item"))
        for name in ("open", "hidden"):
            for task in range(4):
                for place, entry in enumerate(ENTRIES):
                    for item in range(8):
                        right = int(draw.random() < 0.1 + place / 40) * (100 if place == 3 else 1)
                        value = "" if (place, task) == (5, 0) else right
                        if (place, task) != (7, 1):
                            rows.writerow((entry, f"t{task}", "all", value, "higher", name, item))
                        if place == 9:
                            rows.writerow((entry, f"u{task}", "all", 1, "higher", name, item))
    return path


def shown(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, ["rank", "show", "--draws", "50", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_ranking_is_25_lines_of_80_characters(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = shown("--results", results).splitlines()
    assert len(printed) <= 25 and max(map(len, printed)) <= 80
    best = json.loads(shown("--results", results, "--json"))["rankings"]
    assert sum(row["round"] == "overall" for row in best) == 30
    one = shown("--results", results, "--round", "open").splitlines()
    assert len(one) <= 25 and one != printed


def test_explain_has_every_round_note_and_definition(results: Path) -> None:
    short, full = shown("--results", results), shown("--results", results, "--explain")
    rows = json.loads(shown("--results", results, "--json"))["rankings"]
    for name in ("open", "hidden", "overall"):
        assert f"round {name}" in full
    assert all(row["entry"] in full for row in rows)
    assert "From open to hidden" in full and "From open to hidden" not in short
    assert all(word in full for word in ("geometric", "product", "sign-flip"))
    assert len(full.splitlines()) > 80


@pytest.mark.parametrize("groups", [5, 6])
def test_pairs_without_a_possible_test_are_not_called_indistinguishable(
    tmp_path: Path, groups: int
) -> None:
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [f"{entry},t{task},{v}" for task in range(groups) for v, entry in enumerate("ab")]
    path.write_text("\n".join(["entry,task,value", *rows]) + "\n")
    words = ["rank", "report", "--results", str(path), "--draws", "0", "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    (pair,) = json.loads(shown("--results", path, "--json"))["ranking_pairs"]
    assert pair["verdict"] == ("too-few" if groups == 5 else "distinguishable")
    for text in (page.read_text(), shown("--results", path)):
        assert ("not tested" in text) == (groups == 5)


def test_one_round_shows_nothing_of_another(results: Path, tmp_path: Path) -> None:
    """Organisers publish the open round while the other one is secret."""
    results.write_text(results.read_text().replace("hidden", "secret"))
    page = tmp_path / "page.html"
    words = ["rank", "report", "--results", str(results), "--round", "open", "--draws", "50"]
    assert CliRunner().invoke(cli, [*words, "--out", str(page)]).exit_code == 0
    printed = shown("--results", results, "--round", "open", "--explain")
    as_json = shown("--results", results, "--round", "open", "--json")
    for text in (page.read_text(), printed, as_json):
        assert (
            "open" in text
            and "secret" not in text
            and "overall" not in text.lower().replace("overall, the weighted", "")
        )
    marts = json.loads(as_json)
    assert marts["rankings"] and marts["ranking_tasks"] and marts["ranking_pairs"]
    assert not marts["ranking_drops"] and not marts["ranking_stability"]


@pytest.mark.parametrize("command", ["show", "report"])
def test_notes_on_directions_name_nothing_of_another_round(tmp_path: Path, command: str) -> None:
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},{name}_{task},{metric},0.{place}{number},{name}"
        for place, entry in enumerate("ab")
        for name in ("open", "secret")
        for number, (task, metric) in enumerate((("qa", "acc"), ("lm", f"{name}_perplexity")))
    ]
    path.write_text("\n".join(["entry,task,metric,value,round", *rows]) + "\n")
    page = ["--out", str(tmp_path / "page.html")] if command == "report" else []
    words = ["rank", command, "--results", str(path), "--draws", "10", *page]
    whole = CliRunner().invoke(cli, words)
    assert whole.exit_code == 0 and "secret_qa" in whole.stderr, whole.output
    part = CliRunner().invoke(cli, [*words, "--round", "open"])
    assert part.exit_code == 0 and "secret" not in part.output
    assert "open_qa (acc)" in part.stderr and "open_perplexity" in part.stderr


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_file_without_its_option_is_refused_with_the_option(command: str, results: Path) -> None:
    done = CliRunner().invoke(cli, ["rank", command, str(results)])
    assert done.exit_code == 2 and "--results" in done.stderr


def test_entries_without_an_overall_score_name_their_rounds(tmp_path: Path) -> None:
    rows = [f"{entry},t,{value},open,1" for entry, value in (("a", 1), ("b", 2), ("Bob", 3))]
    rows += [f"{entry},t,{value},hidden,2" for entry, value in (("a", 1), ("b", 2), ("bob", 3))]
    rows += ["c,t,,hidden,2", "c,t,9,open,1"]  # a failed run
    rows += [f"{entry},t,{value},trial,0" for entry, value in (("a", 1), ("d", 2))]
    path = tmp_path / "results.csv"
    path.write_text("\n".join(["entry,task,value,round,round_weight", *rows]) + "\n")
    rankings = json.loads(shown("--results", path, "--json"))["rankings"]
    overall = [row for row in rankings if row["round"] == "overall"]
    assert [(row["entry"], row["rank"]) for row in overall if row["rank"]] == [("b", 1), ("a", 2)]
    assert {row["entry"]: row["missing"] for row in overall if row["score"] is None} == {
        "Bob": ["hidden"], "bob": ["open"], "c": ["hidden"], "d": ["hidden", "open"],
    }  # fmt: skip
    assert "not ranked: Bob: no score in hidden" in shown("--results", path)


def test_a_round_of_weight_0_is_no_part_of_the_overall_intervals_and_pairs(tmp_path: Path) -> None:
    """Its results have no items: items of the two others are resampled, and compare the pairs."""
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},t,{int(item % 4 >= place)},{name},1,{item}"
        for name in ("open", "hidden")
        for item in range(40)
        for place, entry in enumerate("ab")
    ]
    rows += [f"{entry},t,{entry == 'b':d},trial,0," for entry in "ab"]
    path.write_text("\n".join(["entry,task,value,round,round_weight,item", *rows]) + "\n")
    found = json.loads(shown("--results", path, "--json"))
    overall = [row for row in found["rankings"] if row["round"] == "overall"]
    assert [(row["resampled"], row["draws"]) for row in overall] == [("items", 50)] * 2
    (pair,) = (row for row in found["ranking_pairs"] if row["round"] == "overall")
    assert (pair["verdict"], pair["p"]) == ("distinguishable", None)
    # without items: b is better in all 6 groups of the two rounds (p = 2 / 2^6), worse in trial's
    rows = [
        f"{entry},t{task},{(entry == 'b') == (weight == 1):d},{name},{weight}"
        for name, weight in (("open", 1), ("hidden", 1), ("trial", 0))
        for task in range(3)
        for entry in "ab"
    ]
    path.write_text("\n".join(["entry,task,value,round,round_weight", *rows]) + "\n")
    pairs = json.loads(shown("--results", path, "--json"))["ranking_pairs"]
    (pair,) = (row for row in pairs if row["round"] == "overall")
    assert (pair["verdict"], pair["p"]) == ("distinguishable", 2 / 2**6)


@pytest.mark.parametrize("name", ["rank", "merge"])
def test_help_fits_a_terminal_of_80_characters(name: str) -> None:
    group = cli.get_command(click.Context(cli), name)
    assert isinstance(group, click.Group)
    for command in group.commands:
        printed = CliRunner().invoke(cli, [name, command, "--help"], terminal_width=80).output
        assert max(map(len, printed.splitlines())) <= 80, command
