"""A mistake in a variants file is one line that names file, line, variant and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt_harness import PROJECT

from warehouse.errors import TokenmartError
from warehouse.metrics.registry import Family, find_families
from warehouse.metrics.variant_files import ExpressionChecker, check_variants, tables_of

HEADER = "metric,variant,core,aggregation,unit,over,numerator,denominator,where,tokens,min_tokens"
GOOD = "gain,a,true,micro,,token_pairs,sum(gain),count(*),nll < 2,,10"
TOKENS = """
models:
  - name: fct_tokens
    columns:
      - {name: position, data_type: integer}
      - {name: nll, data_type: double}
      - {name: gain, data_type: double}
      - {name: is_number, data_type: boolean}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("models/tokens", "models/probes", "variants"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "models" / "tokens" / "_tokens.yml").write_text(TOKENS)
    (tmp_path / "gain.sql").write_text("select * from {{ ref('token_metrics') }}")
    return tmp_path


def check(project: Path, text: str) -> None:
    path = project / "variants" / "gain.csv"
    path.write_text(text, encoding="utf-8", newline="")
    sql = project / "gain.sql"
    check_variants(project, [Family("gain", "custom", "higher", True, "window", None, sql)])


def test_what_ships_and_a_good_file_pass(project: Path) -> None:
    check_variants(PROJECT, find_families(PROJECT))
    least = "metric,variant,aggregation,over,numerator,denominator"
    check(project, f"{HEADER}\r\n{GOOD}\r\n\r\ngain,b,,q90,byte,tokens,sum(nll),1,,sum(1),\r\n")
    check(project, f"{least}\ngain,a,macro,tokens,sum(nll),count(*)\n")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("gain,b,,micro", "line 3: 4 values for 11 columns: gain,b,,micro; "),
        ("gain,b,,micro,,tokens,max(nll,1),1,,,", "line 3: 12 values for 11 columns"),
        ("gain,b,,mikro,,tokens,sum(nll),1,,,", "aggregation of b is 'mikro'; did you mean 'micro"),
        ("gain,b,,,,tokens,sum(nll),1,,,", "aggregation of b is empty; write one of micro, macro"),
        ("gain,b,,micro,,,sum(nll),1,,,", "column over of b is empty; write one of tokens, token_"),
        ("gain,b,,micro,,tokens,,1,,,", "numerator of b is empty; write an SQL aggregate, such as"),
        ("gain,b,,micro,,tokens,sum(nll), ,,,", "column denominator of b is empty; write an SQL"),
        ("gain,b,,micro,,token_pair,1,1,,,", "column over of b is 'token_pair'; did you mean 'tok"),
        ("gain,b,,micro,,words,1,1,,,", "column over of b is 'words'; write one of tokens, token_"),
        (
            "gain,b,yes,micro,,tokens,1,1,,,",
            "column core of b is 'yes'; write true, or leave it",
        ),
        ("gain,b,,micro,bytes,tokens,1,1,,,", "column unit of b is 'bytes'; did you mean 'byte'?"),
        ("gain,b,,micro,,tokens,1,1,,,x", "column min_tokens of b is 'x'; write a whole number of"),
        ("gain,b,,micro,,tokens,1,1,,,-1", "column min_tokens of b is '-1'; write a whole number"),
        ("gain,b,,micro,,tokens,1,1,,,1.5", "column min_tokens of b is '1.5'; write a whole"),
        ("pain,b,,micro,,tokens,1,1,,,", "column metric of b is 'pain'; write gain, as the file's"),
        ("gain,b@c,,micro,,tokens,1,1,,,", "column variant of b@c has a space, a quote or @ in it"),
        (GOOD, "line 3: the variant a is in line 2 already; rename one"),
        (
            "gain,b,,micro,,tokens,sum(nl),1,,,",
            "numerator of b reads the column nl, which token",
        ),
        (
            "gain,b,,micro,,tokens,1,1,nll <,,",
            "column where of b is no SQL expression: nll <; che",
        ),
        (
            "gain,b,,micro,,tokens,1,1,,sum(x),",
            "column tokens of b reads the column x, which tok",
        ),
    ],
)
def test_a_mistake_in_a_row_is_named(project: Path, row: str, said: str) -> None:
    with pytest.raises(TokenmartError) as caught:
        check(project, f"{HEADER}\n{GOOD}\n{row}\n")
    assert caught.value.message.startswith(f"{project / 'variants' / 'gain.csv'}, line 3: ")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column metric; the first line names the columns, metric,variant,aggre"),
        ("metric,variant,aggregation,over,numerator\n", "line 1: no column denominator; the first"),
        (f"{HEADER},wher\n", "line 1: column wher is unknown; did you mean 'where'? the columns"),
        (f"{HEADER},where\n", "line 1: column where is there twice"),
    ],
)
def test_a_mistake_in_the_columns_is_named(project: Path, text: str, said: str) -> None:
    with pytest.raises(TokenmartError) as caught:
        check(project, text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sum(nll) filter (where tokens.gain > 2 and NLL < 1)", ""),
        ("list_sum(list_transform(list(gain), lambda x: x + 1))", ""),
        ("quantile_cont(case when nll > 1 then gain end, 0.5)", ""),
        ("count(*)", ""),
        ("'it''s' = 'x' -> 'y'", ""),
        ("sum(ngll)", "reads the column ngll, which tokens lacks; did you mean 'nll'? columns:"),
        ("downstream.score", "reads the column downstream, which tokens lacks"),
        ("(select 1)", "has a subquery; use columns of tokens only"),
        ("gain in (select score from downstream)", "has a subquery"),
        ("exists(from downstream)", "has a subquery"),
        ("sum(nll) over (partition by (select 1))", "has a subquery"),
        ("1 as double) from downstream where cast(nll", "has a subquery"),
        ("read_csv('labels.csv')", "calls the table function read_csv"),
        ("glob('*')", "calls the table function glob"),
        ("1 as double), cast(2", "is more than one expression; write one, with its parenthe"),
        ("nll as integer) + cast(gain", "is more than one expression"),
        ("sum(nll", "is no SQL expression: sum(nll; check its parentheses, quotes and commas"),
        ("1) + (2", "is no SQL expression"),
        ("sum(nll), 1", "is no SQL expression"),
        ("1 as double); drop table tokens; select cast(1", "is no SQL expression"),
        ("sum(nll) -- a comment", "is no SQL expression"),
        ("sum(nll) /*", "is no SQL expression"),
        ("$1", "has a parameter"),
    ],
)
def test_an_expression_reads_columns_of_its_rows_and_nothing_else(text: str, said: str) -> None:
    found = ExpressionChecker().mistake(text, "tokens", ["nll", "gain"])
    assert found.startswith(said) and bool(found) == bool(said)


def test_rows_that_a_metric_may_read_are_those_that_its_sql_reads() -> None:
    described = {"fct_tokens": ["nll"], "ladder_curves": ["total"], "words": None}
    sql = "-- {{ ref('ladder_curves') }}\nwith x as (select * from {{ ref('%s') }})"
    assert dict(tables_of(sql % "token_metrics", described)) == {
        "tokens": ["nll"],
        "token_pairs": ["nll"],
    }
    assert set(tables_of(sql % "fct_tokens", described)) == {
        "key_tokens",
        "evaluator_key_tokens",
        "published_key_text",
    }
    assert dict(tables_of(sql % "words", described)) == {"words": None}
