"""Plain tables of scores: what is read, and the code and row of each mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

from plugins.benchmarks.schema import BENCHMARK_SCORES
from plugins.benchmarks.scores.score_table import read_model_scores, read_scores
from warehouse.errors import TokenmartError

HEADER = "model,size,arch,tokens_bt,benchmark,score"
GOOD = (HEADER, "org/m,1b,a,1,q,0.5", "org/m,1b,a,2,q,0.6", "n,1b,a,1,q,0.4")


def written(tmp_path: Path, *lines: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_good_table(tmp_path):
    table = read_scores(written(tmp_path, *GOOD))
    assert table.schema.equals(BENCHMARK_SCORES)
    first = table.to_pylist()[1]
    assert (first["model_id"], first["full_id"], first["family"]) == ("org--m", "org/m", "org/m")
    assert (first["tokens"], first["metric"], first["direction"]) == (1e9, "score", "higher")
    assert (first["architecture"], first["step"], first["stderr"]) == ("a", None, None)


def test_a_missing_direction_comes_from_the_names(tmp_path):
    header = "model,benchmark,metric,score"
    rows = ["m,wiki,word_perplexity,9", "m,qa,acc_norm,0.5", "m,qa,bpb,1.5"]
    table = read_scores(written(tmp_path, header, *rows))
    found = dict(zip(table["metric"].to_pylist(), table["direction"].to_pylist(), strict=True))
    assert found == {"word_perplexity": "lower", "acc_norm": "higher", "bpb": "lower"}
    losses = read_scores(written(tmp_path, "model,benchmark,score", "m,val_loss,2", "m,q_ppl,9"))
    assert set(losses["direction"].to_pylist()) == {"lower"}


def test_json_lines_and_parquet_read_alike(tmp_path):
    names = HEADER.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in GOOD[1:]]
    lines = written(tmp_path, *(json.dumps(row) for row in rows), name="t.jsonl")
    parquet = tmp_path / "t.parquet"
    duckdb.execute(f"copy (from '{tmp_path / 't.jsonl'}') to '{parquet}'")
    expected = read_scores(written(tmp_path, *GOOD))
    assert read_scores(lines).equals(expected) and read_scores(parquet).equals(expected)
    other = HEADER.replace("arch", "architecture").replace("tokens_bt", "tokens")
    values = [line.replace(",a,1,", ",a,1e9,").replace(",a,2,", ",a,2e9,") for line in GOOD[1:]]
    assert read_scores(written(tmp_path, other, *values)).equals(expected)
    narrow = "select * replace (cast(score as float) as score)"
    duckdb.execute(f"copy ({narrow} from '{tmp_path / 't.jsonl'}') to '{parquet}'")
    assert read_scores(parquet).equals(expected)


def test_names_of_folders_are_no_columns(tmp_path):
    (tmp_path / "score=9").mkdir()
    expected = read_scores(written(tmp_path, *GOOD))
    assert read_scores(written(tmp_path / "score=9", *GOOD)).equals(expected)


METRIC = "model,benchmark,metric,score,direction"
MISTAKES = [
    ([f"{HEADER},scoring", "m,1b,a,1,q,1,2"], "bad-row", 1),
    (["model,benchmark", "m,q"], "bad-row", 1),
    ([HEADER, "m,1b,a,2e9,q,0.5"], "bad-row", 1),
    ([f"{HEADER},tokens", "m,1b,a,1,q,1,1e9"], "bad-row", 1),
    ([f"{HEADER},architecture", "m,1b,a,1,q,1,a"], "bad-row", 1),
    ([*GOOD, "m,1b,a,3,q,nan"], "bad-row", 4),
    ([*GOOD, "m,1b,a,3,q,"], "bad-row", 4),
    ([*GOOD, "m,1b,a,3,q,high"], "bad-row", 4),
    ([*GOOD, ",1b,a,3,q,0.5"], "bad-row", 4),
    ([*GOOD, "m,1b,a,-3,q,0.5"], "bad-row", 4),
    ([*GOOD, "m,1b,a,inf,q,0.5"], "bad-row", 4),
    (["model,step,benchmark,score", "m,1.5,q,1"], "bad-row", 1),
    (["model,step,benchmark,score", "m,-1,q,1"], "bad-row", 1),
    (["model,benchmark,score,stderr", "m,q,1,-1"], "bad-row", 1),
    (["model,benchmark,score,parameters", "m,q,1,0"], "bad-row", 1),
    (["model,benchmark,score,direction", "m,q,1,up"], "bad-row", 1),
    ([*GOOD, "n,1b,a,1,q,0.7"], "repeated", 4),
    ([*GOOD, "n ,1b,a,1,q,0.7"], "repeated", 4),
    ([*GOOD, "n,3b,a,2,q,0.7"], "contradiction", 4),
    ([*GOOD, "n,1b,a,,q,0.7"], "contradiction", 4),
    ([*GOOD, "org--m,1b,a,7,q,0.7"], "contradiction", 4),
    (["model,benchmark,score,direction", "m,q,1,lower", "m,r,1,"], "contradiction", 2),
    ([METRIC, "m,q,x,1,lower", "m,r,x,1,higher"], "contradiction", 2),
    (["model,benchmark,score", "m,q,1", "m,q_ppl,1"], "no-direction", 1),
    (["model,benchmark,metric,score", "m,qa,points,3"], "no-direction", 1),
    (
        ["model,benchmark,step,tokens,score", "m,b,1,5e9,1", "m,b,3,6e9,1", "m,b,2,9e9,1"],
        "order",
        2,
    ),
]


@pytest.mark.parametrize(("lines", "code", "row"), MISTAKES)
def test_mistakes(tmp_path, lines, code, row):
    path = written(tmp_path, *lines)
    with pytest.raises(TokenmartError) as caught:
        read_scores(path)
    where = f"{path}: row {row}"
    if code == "bad-row":  # pydantic's own code, and the column
        assert caught.value.where.startswith(f"{where}: ")
    else:
        assert (caught.value.code, caught.value.where) == (code, where)


def test_a_model_has_one_score_or_one_for_each_document(tmp_path):
    rows = ["model,benchmark,metric,document,score", "m,q,acc,a,1", "m,q,acc,b,0", "n,q,acc,,1"]
    path = written(tmp_path, *rows)
    with pytest.raises(TokenmartError) as caught:
        read_model_scores(path)
    assert (caught.value.code, caught.value.where) == ("contradiction", f"{path}: row 3")
    path = written(tmp_path, *rows[:3], "m,q,acc,a,1")
    with pytest.raises(TokenmartError) as caught:
        read_model_scores(path)
    assert (caught.value.code, caught.value.where) == ("repeated", f"{path}: row 3")
    assert read_model_scores(written(tmp_path, *rows[:3])).num_rows == 2


@pytest.mark.parametrize("name", ["none.csv", ".", "empty.csv", "t.xlsx", "t.parquet"])
def test_files_that_are_no_table_are_refused(tmp_path, name):
    if name not in ("none.csv", "."):
        (tmp_path / name).write_text("" if name == "empty.csv" else "no table")
    with pytest.raises(TokenmartError):
        read_scores(tmp_path / name)
    with pytest.raises(TokenmartError) as caught:
        read_scores(written(tmp_path, HEADER))
    assert caught.value.code == "no-row"


def test_the_query_on_measured_scores_writes_a_table(tmp_path):
    """The query of the tutorial, on rows as `eval_metrics` has them."""
    page = Path(__file__).parents[3] / "docs/tutorials/benchmarks_over_training.md"
    (query,) = re.findall(r'--out eval_scores\.csv "(.*?)"', page.read_text("utf-8"), re.DOTALL)
    with duckdb.connect() as connection:
        connection.execute(
            """
            create table eval_metrics as select * from (values
                ('runs', 'org--m-step1000', 'qa-0shot', 'all', 'acc', 0.25, 0.1),
                ('runs', 'org--m-step2000', 'qa-0shot', 'all', 'acc', 0.5, 0.1),
                ('runs', 'org--m-step3000', 'qa-0shot', 'all', 'acc', null, null),
                ('runs', 'org--m-step2000', 'qa-0shot', 'length', 'acc', 0.9, 0.1),
                ('other', 'org--m-step2000', 'qa-0shot', 'all', 'acc', 0.9, 0.1)
            ) t(problem, model_id, condition, part, metric, value, stderr)
            """
        )
        connection.sql(query).write_csv(str(tmp_path / "scores.csv"))
    columns = ("full_id", "step", "benchmark", "metric", "direction", "score", "stderr")
    rows = read_scores(tmp_path / "scores.csv").select(columns).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("org--m", 1000, "qa-0shot", "acc", "higher", 0.25, 0.1),
        ("org--m", 2000, "qa-0shot", "acc", "higher", 0.5, 0.1),
    ]
