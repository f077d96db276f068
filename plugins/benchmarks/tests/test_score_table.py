"""Plain tables of scores: every mistake is one line that names file, row, column and value."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from plugins.benchmarks.scores.score_table import read_scores, tokens_notes
from plugins.benchmarks.scores.table_notes import recipe_notes
from plugins.benchmarks.tables.benchmarks import BENCHMARK_SCORES
from warehouse.errors import TokenmartError

HEADER = "model,size,arch,tokens_bt,benchmark,score"
GOOD = (HEADER, "org/m,1b,a,1,q,0.5", "org/m,1b,a,2,q,0.6", "n,1b,a,1,q,0.4")


def written(tmp_path: Path, *lines: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_good_table(tmp_path: Path) -> None:
    table = read_scores(written(tmp_path, *GOOD))
    assert table.schema.equals(BENCHMARK_SCORES)
    first = table.to_pylist()[1]
    assert (first["model_id"], first["full_id"], first["family"]) == ("org--m", "org/m", "org/m")
    assert (first["tokens"], first["metric"], first["direction"]) == (1e9, "score", "higher")
    assert (first["architecture"], first["step"], first["stderr"]) == ("a", None, None)


def test_a_missing_direction_comes_from_the_metric_or_is_asked_for(tmp_path: Path) -> None:
    header = "model,benchmark,metric,score"
    rows = ["m,wiki,word_perplexity,9", "m,qa,acc_norm,0.5", "m,qa,bpb,1.5"]
    table = read_scores(written(tmp_path, header, *rows))
    found = dict(zip(table["metric"].to_pylist(), table["direction"].to_pylist(), strict=True))
    assert found == {"word_perplexity": "lower", "acc_norm": "higher", "bpb": "lower"}
    path = written(tmp_path, header, *rows, "m,qa,points,3")
    with pytest.raises(TokenmartError, match="row 4: direction is missing, and doesn't follow"):
        read_scores(path)


def test_json_lines_and_parquet_read_alike(tmp_path: Path) -> None:
    names = HEADER.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in GOOD[1:]]
    lines = written(tmp_path, *(json.dumps(row) for row in rows), name="t.jsonl")
    parquet = tmp_path / "t.parquet"
    duckdb.execute(f"copy (from '{tmp_path / 't.jsonl'}') to '{parquet}'")
    expected = read_scores(written(tmp_path, *GOOD))
    assert read_scores(lines).equals(expected) and read_scores(parquet).equals(expected)


def test_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    (tmp_path / "score=9").mkdir()
    expected = read_scores(written(tmp_path, *GOOD))
    assert read_scores(written(tmp_path / "score=9", *GOOD)).equals(expected)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEADER, "m,1b,a,2e9,q,0.5"],
            "row 1: tokens_bt is 2000000000, expected billions of tokens; divide by 1e9, or name",
        ),
        ([HEADER], "contains no row"),
        ([*GOOD, "m,1b,a,3,q,nan"], "row 4: score is nan, expected a finite number"),
        ([*GOOD, "m,1b,a,3,q,"], "row 4: score is missing, expected a finite number"),
        ([*GOOD, "m,1b,a,3,q,high"], "row 4: score is 'high', expected a number"),
        ([*GOOD, ",1b,a,3,q,0.5"], "row 4: model is missing, expected a name"),
        ([*GOOD, "m,1b,a,-3,q,0.5"], "row 4: tokens is -3e9, expected a finite number of"),
        ([*GOOD, "n,1b,a,1,q,0.7"], "rows 3 and 4 both give score of n on q at one checkpoint"),
        (
            [*GOOD, "n,3b,a,2,q,0.7"],
            "rows 3 (1b) and 4 (3b) contradict each other on n, expected one",
        ),
        (
            [*GOOD, "n,1b,a,,q,0.7"],
            "rows 3 (tokens) and 4 (no tokens) contradict each other on n, ",
        ),
        (
            [*GOOD, "org--m,1b,a,7,q,0.7"],
            "(org/m) and 4 (org--m) contradict each other on org--m, expect",
        ),
        (
            ["model,benchmark,score,direction", "m,q,1,up"],
            "row 1: direction is up, expected higher or lower",
        ),
        (
            ["model,benchmark,score,direction", "m,q,1,lower", "m,r,1,"],
            "rows 1 (lower) and 2 (higher) contradict each other on score, expected one direction "
            "(an empty one is higher, by name); a metric has one direction: name the losses in the",
        ),
        (
            ["model,benchmark,metric,score,direction", "m,q,x,1,lower", "m,r,x,1,higher"],
            "rows 1 (lower) and 2 (higher) contradict each other on x, expected one direction; a "
            "metric has one direction: name the losses in the column 'metric' (loss, perplexity, "
            "…), or write one file per direction (a problem of kind table reads several metrics",
        ),
        (
            ["model,benchmark,score", "m,q,1", "m,q_ppl,1"],
            "row 2: of 'q_ppl' lower is better by its name, and of 'q' (row 1) higher; a metric",
        ),
        (["model,step,benchmark,score", "m,1.5,q,1"], "row 1: step is '1.5', expected a whole num"),
        (["model,benchmark,score,stderr", "m,q,1,-1"], "row 1: stderr is -1.0, expected a finite"),
    ],
)
def test_mistakes(tmp_path: Path, lines: list[str], message: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(TokenmartError) as caught:
        read_scores(path)
    said = caught.value.format_message()
    assert said.startswith(f"{path}: ") and "\n" not in said
    assert message in said.replace("-3000000000.0", "-3e9")


COLUMNS = [
    (HEADER.replace("score", "scores"), "missing-column", "score"),
    (HEADER.replace(",", ";"), "missing-column", "model"),
    (f"{HEADER},note", "unknown-column", "note"),
    (f"{HEADER},version", "unknown-column", "version"),
    (f"{HEADER},tokens", "column-twice", "tokens"),
    ("model,benchmark", "missing-column", "score"),
]


@pytest.mark.parametrize(("header", "code", "where"), COLUMNS)
def test_wrong_columns(tmp_path: Path, header: str, code: str, where: str) -> None:
    with pytest.raises(TokenmartError) as caught:
        read_scores(written(tmp_path, header))
    assert (caught.value.code, caught.value.where) == (code, where)


@pytest.mark.parametrize(
    ("name", "code"),
    [("none.csv", "no-file"), (".", "no-file"), ("t.xlsx", "unknown-suffix")],
)
def test_other_files(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(TokenmartError) as caught:
        read_scores(tmp_path / name)
    assert caught.value.code == code


def test_a_column_goes_by_any_of_its_names(tmp_path: Path) -> None:
    other = HEADER.replace("arch", "architecture").replace("tokens_bt", "tokens")
    rows = [f"m,1b,a,{tokens},q,0.5" for tokens in ("1e9", "2e9")]
    table = read_scores(written(tmp_path, other, *rows), HEADER.split(","))
    assert table["tokens"].to_pylist() == [1e9, 2e9]


def test_steps_and_tokens_have_one_order(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = "m,b,acc,1,5e9,0.5\nm,b,acc,3,6e9,0.5\nm,b,acc,2,9e9,0.5\n"
    path.write_text("model,benchmark,metric,step,tokens,score\n" + rows)
    with pytest.raises(TokenmartError, match="row 2 of m has more steps and fewer tokens than"):
        read_scores(path)


def test_so_few_tokens_that_they_may_be_billions_have_a_note() -> None:
    (note,) = tokens_notes(350.0)
    assert note.startswith("tokens: 350 at most, taken as single tokens; if these are billions")
    assert tokens_notes(350e9) == tokens_notes(None) == ()


def test_runs_that_are_averaged_are_named(tmp_path: Path) -> None:
    """Seeds of one recipe and size count as one in comparisons of sizes, and all pairs in CS."""
    header = "model,size,arch,recipe,tokens_bt,benchmark,score"

    def notes(*runs: str) -> tuple[str, ...]:
        scores = read_scores(written(tmp_path, header, *(f"{run},1,q,0.5" for run in runs)))
        with duckdb.connect() as connection:
            connection.register("scores", scores)
            return recipe_notes(connection, "scores")

    one = ("a,1b,x,c4", "b,4b,x,c4")
    assert notes(*one) == notes("a,1b,x,c4", "b,1b,x,c4") == ()
    assert notes(*one, "c,1b,x,c4", "d,1b,x,c4") == (
        "one recipe and size has several runs (recipe c4, size 1b: 3); comparisons of sizes use "
        "the mean score of these runs",
    )
    assert notes("a,1b,x,web", "b,1b,x,science") == ()
    assert notes("a,1b,x,web", "b,1b,x,science", "c,1b,x,science") == (
        "1b x: CS compares 2 science with 1 web run; it uses the means over all pairs of them",
    )
