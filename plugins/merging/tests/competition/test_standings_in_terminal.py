"""`tokenmart rank show` on narrow and wide terminals: no line is longer, no number is broken."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tokenmart import cli

ENTRIES = ("lab/an-entry-with-a-long-name-1B@step-120000", "lab/the-other-entry-with-a-long-name")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two rounds of four tasks with eight items."""
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("entry", "task", "value", "direction", "round", "item"))
        for name in ("open", "hidden"):
            for task in range(4):
                for item in range(8):
                    for place, entry in enumerate(ENTRIES):
                        right = int((item + task) % (3 + place) == 0)
                        rows.writerow((entry, f"t{task}", right, "higher", name, item))
    return path


def shown(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, ["rank", "show", "--draws", "50", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_ranking_fits_the_terminal(
    results: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    printed = shown("--results", results)
    assert max(map(len, printed.splitlines())) <= width
    assert ("not shown (--wide): geometric, product" in printed) == (width < 120)
    rankings = json.loads(shown("--results", results, "--json"))["rankings"]
    for row in rankings:
        assert f"{row['score_low']:.4g} to {row['score_high']:.4g}" in printed
    wide = shown("--results", results, "--wide")
    assert "geometric" in wide and "not shown" not in wide


def test_results_that_an_entry_lacks_are_named(tmp_path: Path) -> None:
    rows = ["entry,round,task_group,task,value"]
    for task in ("qa", "nli", *(f"t{place}" for place in range(6))):
        rows += [f"{entry},open,all,{task},{value}" for entry, value in (("a", 3), ("b", 2))]
    rows += ["e,open,all,qa,1", "e,open,all,nli,"]  # six tasks without a row, one failed run
    path = tmp_path / "results.csv"
    path.write_text("\n".join(rows) + "\n")
    printed = shown("--results", path)
    assert "e: an empty value in nli, round open; ranked without it" in printed
    assert "e: no result in t0, round open; ranked without it" in printed
    assert "no result in t4" not in printed and "2 more missing results" in printed
    page = tmp_path / "page.html"
    words = ["rank", "report", "--results", str(path), "--draws", "0", "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert (
        "e: no result in t0, round open; ranked without it, which may raise its score."
        in page.read_text()
    )


def test_items_that_an_entry_lacks_in_one_task_of_a_group_are_counted(tmp_path: Path) -> None:
    rows = ["entry,round,task_group,task,item,metric,value"]
    for name in ("open", "hidden"):
        for task in ("qa", "nli"):
            for item in range(4):
                rows += [f"{e},{name},all,{task},{item},f1,{item % 2}" for e in ("a", "b")]
                if (name, task) != ("open", "nli") or item == 0:
                    rows.append(f"e,{name},all,{task},{item},f1,1")
    path = tmp_path / "results.csv"
    path.write_text("\n".join(rows) + "\n")
    printed = shown("--results", path)
    assert "e: 3 of 4 items without a value in nli (f1), round open; ranked without" in printed


def test_an_entry_that_lacks_a_round_is_named_in_the_overall_ranking(tmp_path: Path) -> None:
    rows = [f"{entry},t,{value},open,1" for entry, value in (("a", 1), ("b", 2), ("Bob", 3))]
    rows += [f"{entry},t,{value},hidden,2" for entry, value in (("a", 1), ("b", 2), ("bob", 3))]
    rows += ["c,t,,hidden,2", "c,t,9,open,1"]  # a failed run
    rows += [f"{entry},t,{value},trial,0" for entry, value in (("a", 1), ("d", 2))]
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    path.write_text("\n".join(["entry,task,value,round,round_weight", *rows]) + "\n")
    reasons = {
        "Bob": "no score in round hidden (no result; is it the same as bob?)",
        "bob": "no score in round open (no result; is it the same as Bob?)",
        "c": "no score in round hidden (not ranked in it)",
        "d": "no score in round hidden (no result), round open (no result)",
    }
    rankings = json.loads(shown("--results", path, "--json"))["rankings"]
    overall = [row for row in rankings if row["round"] == "overall"]
    assert [(row["entry"], row["rank"]) for row in overall if row["rank"]] == [("b", 1), ("a", 2)]
    assert {row["entry"]: row["reason"] for row in overall if row["score"] is None} == reasons
    words = ["rank", "report", "--results", str(path), "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    printed, text = " ".join(shown("--results", path).split()), page.read_text()
    for entry, reason in reasons.items():
        assert f"not ranked: {entry}: {reason}" in printed
        assert f"not ranked: {reason}" in text
    assert "no score in round" not in shown("--results", path, "--round", "hidden")


def test_a_result_without_another_to_compare_with_is_named(tmp_path: Path) -> None:
    rows = [f"{entry},all,{task},{value}" for task in "xy" for entry, value in (("a", 1), ("b", 2))]
    path = tmp_path / "results.csv"
    path.write_text("\n".join(["entry,task_group,task,value", *rows, "a,all,z,9"]) + "\n")
    said = "a: no other entry has a value to compare with in z, round results; ranked without it"
    assert said in shown("--results", path).splitlines()
    (row,) = json.loads(shown("--results", path, "--json"))["ranking_missing"]
    assert (row["entry"], row["task"]) == ("a", "z")


def test_the_import_names_results_that_an_entry_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    path = tmp_path / "results.csv"
    rows = [f"{entry},all,{task},1" for entry in ("a", "b", "e") for task in ("qa", "nli")]
    path.write_text("\n".join(["entry,task_group,task,value", *rows[:-1]]) + "\n")
    done = CliRunner().invoke(cli, ["rank", "import", "--problem", "lacking", str(path)])
    assert done.exit_code == 0, done.output
    assert "e: no result in nli, round results; ranked without it" in done.stderr


@pytest.mark.parametrize(
    ("entries", "groups", "least"), [(2, 4, 6), (2, 5, 6), (2, 6, 6), (5, 8, 9), (5, 9, 9)]
)
def test_pairs_without_a_possible_test_are_not_called_indistinguishable(
    tmp_path: Path, entries: int, groups: int, least: int
) -> None:
    """The later entry is better in every group; of 5 entries, 10 times 2 / 2^8 is above 0.05."""
    tested = groups >= least
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [f"{'abcde'[v]},t{task},{v}" for task in range(groups) for v in range(entries)]
    path.write_text("\n".join(["entry,task,value", *rows]) + "\n")
    words = ["rank", "report", "--results", str(path), "--draws", "0", "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    text, printed = page.read_text(), shown("--results", path)
    pairs = json.loads(shown("--results", path, "--json"))["ranking_pairs"]
    reason = f"at least {least} groups of tasks, here are {groups}"
    for each in (text, printed):
        assert (reason in " ".join(each.split()) and "not tested" in each) != tested
    # tested without a draw, too
    assert {pair["distinguishable"] for pair in pairs} == {True if tested else None}
    assert (" is distinguishable from every other entry" in text) == tested


def test_one_round_shows_nothing_of_another(results: Path, tmp_path: Path) -> None:
    """Organisers publish the open round while the other one is secret."""
    results.write_text(results.read_text().replace("hidden", "secret"))
    page = tmp_path / "page.html"
    words = ["rank", "report", "--results", str(results), "--round", "open", "--draws", "50"]
    assert CliRunner().invoke(cli, [*words, "--out", str(page)]).exit_code == 0
    printed = shown("--results", results, "--round", "open")
    as_json = shown("--results", results, "--round", "open", "--json")
    for text in (page.read_text(), printed, as_json):
        assert "open" in text and "secret" not in text and "Overall:" not in text
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
    assert "higher is better for open_qa (acc)" in part.stderr
    assert "lower is better for open_perplexity" in part.stderr


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_file_without_its_option_is_refused_with_the_option(command: str, results: Path) -> None:
    done = CliRunner().invoke(cli, ["rank", command, str(results)])
    assert done.exit_code == 2
    assert f"unexpected argument '{results}'; give a file of results with --results" in done.stderr


@pytest.mark.parametrize(("weights", "noted"), [((0, 1), True), ((1, 1), False)])
def test_rounds_without_an_overall_ranking_have_a_note(
    tmp_path: Path, weights: tuple[int, int], noted: bool
) -> None:
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [
        f"{entry},t,{entry == 'a':d},{name},{weight}"
        for name, weight in zip(("open", "hidden"), weights, strict=True)
        for entry in "ab"
    ]
    path.write_text("\n".join(["entry,task,value,round,round_weight", *rows]) + "\n")
    words = ["rank", "report", "--results", str(path), "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    said = "no overall ranking: it needs at least two rounds with a weight above 0"
    printed = " ".join(shown("--results", path).split())
    for text in (printed, page.read_text()):
        assert (said in text) == noted
    assert said not in " ".join(shown("--results", path, "--round", "open").split())
    few = "no intervals were computed: results without items need at least 5 groups of tasks"
    assert few in printed


def test_without_draws_the_note_says_so(results: Path) -> None:
    assert "no intervals were computed: there were no bootstrap draws" in " ".join(
        shown("--results", results, "--draws", "0").split()
    )


@pytest.mark.parametrize("groups", [4, 5])
def test_the_overall_note_names_the_rounds_with_few_groups(tmp_path: Path, groups: int) -> None:
    """Both rounds together have more than five groups of tasks."""
    path = tmp_path / "results.csv"
    rows = [
        f"{entry},t{task},{value},{name}"
        for name, count in (("open", 5), ("hidden", groups))
        for task in range(count)
        for entry, value in (("a", task % 2), ("b", 0.5))
    ]
    path.write_text("\n".join(["entry,task,value,round", *rows]) + "\n")
    last = " ".join(shown("--results", path).split()).partition("round overall")[2]
    assert ("tasks resampled 50 times" in last) == (groups == 5)
    assert "no bootstrap draws" not in last
    few = (
        "no intervals were computed: results without items need at least 5 groups of tasks for "
        "them in each round with a weight, hidden has 4"
    )
    assert (few in last) == (groups == 4)
    assert "no bootstrap draws" not in shown("--results", path, "--round", "overall")


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
    assert [row["resampled"] for row in overall] == ["items", "items"]
    assert {row["draws"] for row in overall} == {50}
    (pair,) = (row for row in found["ranking_pairs"] if row["round"] == "overall")
    assert pair["distinguishable"] is True and pair["p_adjusted"] is None
    weights = {row["round"]: row["round_weight"] for row in found["rankings"]}
    assert weights == {"open": 1, "hidden": 1, "trial": 0, "overall": None}
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
    assert pair["distinguishable"] is True and pair["p_adjusted"] == 2 / 2**6


def test_pairs_whose_intervals_and_test_differ_are_in_the_note(tmp_path: Path) -> None:
    """In each of 12 groups, a or b is last, so both have score 0, far below c; they win often."""
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [
        f"{entry},t{task},{value}"
        for task in range(12)
        for entry, value in (("a", 4 * (task % 2)), ("b", 4 * ((task + 1) % 2)), ("c", 2))
    ]
    path.write_text("\n".join(["entry,task,value", *rows]) + "\n")
    found = json.loads(shown("--results", path, "--json"))
    ranks = {row["entry"]: (row["rank_low"], row["rank_high"]) for row in found["rankings"]}
    assert ranks == {"a": (2, 2), "b": (2, 2), "c": (1, 1)}
    assert {pair["distinguishable"] for pair in found["ranking_pairs"]} == {False}
    words = ["rank", "report", "--results", str(path), "--draws", "50", "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    said = (
        "an interval is of one entry alone: a and c (and 1 more pair) have no common rank in their "
        "intervals, but are not distinguishable"
    )
    assert said in " ".join(shown("--results", path).split()) and said in page.read_text()


def test_overlapping_intervals_of_a_distinguishable_pair_are_in_the_note(tmp_path: Path) -> None:
    """d has what c has right and 8 items more; e has other items right, and any rank."""
    path = tmp_path / "results.csv"
    scores = {"c": [1] * 20 + [0] * 30, "d": [1] * 28 + [0] * 22, "e": [0] * 26 + [1] * 24}
    rows = [f"{e},t,{i},{v}" for e, values in scores.items() for i, v in enumerate(values)]
    path.write_text("\n".join(["entry,task,item,value", *rows]) + "\n")
    found = json.loads(shown("--results", path, "--json"))
    ranks = {row["entry"]: (row["rank_low"], row["rank_high"]) for row in found["rankings"]}
    pairs = {(p["entry"], p["other_entry"]): p["distinguishable"] for p in found["ranking_pairs"]}
    assert ranks["d"][1] >= ranks["c"][0] and pairs["c", "d"] is True
    said = "c and d have overlapping rank intervals, but are distinguishable"
    assert said in " ".join(shown("--results", path).split())


def test_equal_entries_are_both_first(tmp_path: Path) -> None:
    path, page = tmp_path / "results.csv", tmp_path / "page.html"
    rows = [
        f"{entry},t{task},{v}"
        for task in range(3)
        for entry, v in zip("abc", (2, 2, 1), strict=True)
    ]
    path.write_text("\n".join(["entry,task,value", *rows]) + "\n")
    words = ["rank", "report", "--results", str(path), "--out", str(page)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert "a and b have the same score, 0.75, the highest." in page.read_text()


def test_directions_taken_from_names_are_said(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    rows = ["a,t,ppl,3", "b,t,ppl,2", "a,t,acc,0.5", "b,t,acc,0.4"]
    path.write_text("\n".join(["entry,task,metric,value", *rows]) + "\n")
    done = CliRunner().invoke(cli, ["rank", "show", "--results", str(path)])
    assert "no direction given: lower is better for ppl, by the metric's name" in done.stderr
    assert "higher is better for t (acc)" in done.stderr


@pytest.mark.parametrize("name", ["rank", "merge"])
def test_help_fits_a_terminal_of_80_characters(name: str) -> None:
    group = cli.get_command(click.Context(cli), name)
    assert isinstance(group, click.Group)
    for command in group.commands:
        printed = CliRunner().invoke(cli, [name, command, "--help"], terminal_width=80).output
        assert max(map(len, printed.splitlines())) <= 80, command
