"""The macros answer the same whatever a query calls its columns and tables, and however many
problems the warehouse holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from sql_samples import ask, failure, write_spans

from warehouse.paths import Workspace

OTHER = ["ABCDEFGH", "12345678"]


@pytest.fixture
def two_problems(filled: Workspace) -> Workspace:
    """`minilong` with the text abcdefgh, and `another`, which comes first, with two texts."""
    spans = [(at, at + 1, -1.0) for at in range(8)]
    write_spans(filled, OTHER, {"good": [spans]}, problem="another")
    return filled


SAMPLE = "model_id = 'good' and condition = 'full' and position = 2"
TEXT_OF = "token_text(doc_id, char_start, char_end, problem)"
ANSWERS = {
    "select": f"select {TEXT_OF} as t from tokens where {SAMPLE} order by problem desc",
    "where": f"select problem, position as t from tokens where {TEXT_OF} = 'c'"
    " and model_id = 'good' and condition = 'full'",
    "alias d": "select token_text(d.doc_id, d.char_start, d.char_end, d.problem) as t,"
    f" document_name(d.doc_id, d.problem) as n from tokens as d where {SAMPLE}"
    " order by d.problem desc",
    "alias documents": "select token_text(documents.doc_id, 0, 3, documents.problem) as t,"
    " document_name(documents.doc_id, documents.problem) as n, name from documents"
    " order by documents.problem desc, doc_id",
    "join": "select t.problem, token_text(t.doc_id, t.char_start, t.char_end, t.problem) as t"
    " from tokens as t join documents as d on t.problem = d.problem and t.doc_id = d.doc_id"
    f" and token_text(d.doc_id, 0, 1, d.problem) = left(d.text, 1) where {SAMPLE}"
    " order by t.problem desc",
    "group by": f"select {TEXT_OF} as t, count(*) as n from tokens where condition = 'full'"
    " group by all order by t desc limit 2",
    "order by": f"select problem from tokens where {SAMPLE} order by {TEXT_OF} desc",
    "columns of a macro's names": "select token_text(document, first, past, problem_name) as t"
    " from (select 0 as document, 1 as first, 3 as past, 'minilong' as problem_name)",
    "columns text, name": "select token_text(text, name, name + 2, problem) as t"
    " from (select 0 as text, 1 as name, 'minilong' as problem)",
    "snippet": "select context_snippet(doc_id, char_start, char_end, problem, width := 1) as t"
    f" from tokens where {SAMPLE} order by problem desc",
    "no such document": "select document_name(7, 'minilong') as n,"
    " token_text(0, 0, 1, 'none') as t, context_snippet(7, 0, 1, 'minilong') as s",
    "pairs": "select count(*) as n, min(short_logprob) as m from tokens as long,"
    " paired_tokens('minilong', 'window_512') as short where long.problem = 'another'"
    " and short.model_id = 'good'",
}
EXPECTED = {
    "select": [{"t": "c"}, {"t": "C"}],
    "where": [{"problem": "minilong", "t": 2}],
    "alias d": [{"t": "c", "n": "a.txt"}, {"t": "C", "n": "0.txt"}],
    "alias documents": [
        {"t": "abc", "n": "a.txt", "name": "a.txt"},
        {"t": "fai", "n": "b.txt", "name": "b.txt"},
        {"t": "ABC", "n": "0.txt", "name": "0.txt"},
        {"t": "123", "n": "1.txt", "name": "1.txt"},
    ],
    "join": [{"problem": "minilong", "t": "c"}, {"problem": "another", "t": "C"}],
    "group by": [{"t": "h", "n": 2}, {"t": "g", "n": 2}],
    "order by": [{"problem": "minilong"}, {"problem": "another"}],
    "columns of a macro's names": [{"t": "bc"}],
    "columns text, name": [{"t": "bc"}],
    "snippet": [{"t": "b[c]d"}, {"t": "B[C]D"}],
    "no such document": [{"n": None, "t": None, "s": None}],
    "pairs": [{"n": 32, "m": pytest.approx(-3.1)}],
}


@pytest.mark.parametrize("place", ANSWERS)
def test_texts_are_those_of_the_row_and_its_problem(two_problems, place):
    assert ask(ANSWERS[place]) == EXPECTED[place]


@pytest.mark.parametrize(
    "call",
    [
        "token_text(doc_id, char_start, char_end)",
        "context_snippet(doc_id, char_start, char_end)",
        "document_name(doc_id)",
    ],
)
def test_a_text_without_its_problem_is_a_mistake(two_problems, call):
    code, output = failure(f"select {call} from tokens")
    assert code == 1
    assert "problem_name" in output


# Columns called as the macros' own arguments, lambda variables and helpers are.
NAMES = ["x", "y", "own", "other", "kept", "numbers", "left_numbers", "logprobs", "bytes", "text"]


CALLS = {
    "spearman({name}, partner)": 0.5,
    "spearman(partner, {name})": 0.5,
    "kendall({name}, partner)": 1 / 3,
    "round(ppl(-{name}), 6)": 7.389056,
    "bits_per_byte(-{name} * ln(2), {name})": 1.0,
    "gain(any_value({name}), any_value({name}))": 0.0,
    "list_centred_ranks(list({name} order by {name}))": [-1.0, 0.0, 1.0],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_column_may_have_any_name(workspace, name):
    rows = f"(values (1, 1), (2, 3), (3, 2)) as v({name}, partner)"
    asked = ", ".join(f"{call.format(name=name)} as r{n}" for n, call in enumerate(CALLS))
    (row,) = ask(f"select {asked} from {rows}")
    for value, expected in zip(row.values(), CALLS.values(), strict=True):
        assert value == pytest.approx(expected)


def test_two_columns_with_exchanged_names(workspace):
    rows = "(values (1, 1, 3), (2, 3, 1), (3, 2, 2)) as v(y, x, own)"
    assert ask(f"select spearman(y, x) as a, spearman(x, own) as b from {rows}") == [
        {"a": pytest.approx(0.5), "b": pytest.approx(-1.0)}
    ]


def test_five_hundred_rows_have_scipys_correlations(workspace):
    numbers = np.random.default_rng(0).integers(0, 200, (2, 500))
    rows = ", ".join(f"({x}, {y})" for x, y in numbers.T)
    (found,) = ask(
        f"select spearman(x, y) as rho, kendall(x, y) as tau from (values {rows}) v(x, y)"
    )
    assert found["rho"] == pytest.approx(spearmanr(*numbers).statistic, abs=1e-12)
    assert found["tau"] == pytest.approx(kendalltau(*numbers).statistic, abs=1e-12)
