"""The query cookbook: every answer worked by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from made_up_warehouse import Shape, Window, write_warehouse
from scipy.stats import ttest_rel
from sql_samples import TEXT, ask, build_mart, rounded

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sources.documents import Document, documents_table
from warehouse.sql.dataframes import cookbook, query
from warehouse.sql.queries import find_query, list_queries, parameters_of, parse_value
from warehouse.sql.session import Session
from warehouse.store.parquet_files import write_table

ROOT = Path(__file__).resolve().parents[3]

EXPECTED: dict[str, tuple[list[str], tuple[str, ...], list[tuple[Any, ...]]]] = {
    "coverage": (
        [],
        ("model_id", "condition", "documents", "failed", "rows", "truncated"),
        [
            ("bad", "full", 1, 1, 8, False),
            ("bad", "retrieval_with", 1, 0, 2, False),
            ("bad", "retrieval_without", 1, 0, 2, False),
            ("bad", "window_512", 1, 0, 4, False),
            ("good", "full", 1, 0, 8, False),
            ("good", "retrieval_with", 1, 0, 2, False),
            ("good", "retrieval_without", 1, 0, 2, False),
            ("good", "window_512", 1, 0, 4, False),
        ],
    ),
    "cost": (
        [],
        (
            "model_id",
            "tokens_processed",
            "tokens_scored",
            "seconds",
            "tokens_per_second",
            "peak_gb",
        ),
        [("bad", 40, 16, 8.0, 5.0, 3.0), ("good", 32, 16, 8.0, 4.0, 3.0)],
    ),
    "failures": (
        [],
        ("model_id", "condition", "doc_id", "reason"),
        [("bad", "full", 1, "out of memory")],
    ),
    "perplexity": (
        [],
        ("model_id", "documents", "tokens", "nll_per_token", "perplexity", "bits_per_byte"),
        [
            ("good", 1, 8, 0.55, round(math.exp(0.55), 4), round(0.55 / math.log(2), 4)),
            ("bad", 1, 8, 2.0, round(math.exp(2), 4), round(2 / math.log(2), 4)),
        ],
    ),
    "position_curve": (
        [],
        ("model_id", "from_position", "tokens", "nll"),
        [
            ("bad", 1, 2, 2.0),
            ("bad", 2, 2, 2.0),
            ("bad", 4, 4, 2.0),
            ("good", 1, 2, 1.0),
            ("good", 2, 2, 1.0),
            ("good", 4, 4, 0.1),
        ],
    ),
    "context_gain": (
        [],
        ("model_id", "tokens", "mean_gain", "median_gain", "share_helped", "share_hurt"),
        [("good", 4, 0.8, 0.1, 0.25, 0.0), ("bad", 4, -0.25, 0.0, 0.0, 0.25)],
    ),
    "top_gain_tokens": (
        ["model=good", "limit=2"],
        ("gain", "rank", "short_rank", "document", "position", "words"),
        [(3.0, 1, 20, "a.txt", 4, "abcd[e]fgh"), (0.2, 1, 1, "a.txt", 6, "abcdef[g]h")],
    ),
    "hurt_tokens": (
        ["model=bad", "document=0"],
        ("gain", "rank", "short_rank", "position", "words"),
        [(-1.0, 20, 1, 6, "abcdef[g]h")],
    ),
    "top_1_with_context": (
        ["model=good"],
        ("probability", "rank", "short_rank", "words"),
        [(round(math.exp(-0.1), 4), 1, 20, "abcd[e]fgh")],
    ),
    "gain_by_reach": (
        [],
        ("model_id", "further_tokens_from", "tokens", "mean_gain", "share_helped"),
        [
            ("bad", 2, 2, 0.0, 0.0),
            ("bad", 4, 2, -0.5, 0.0),
            ("good", 2, 2, 1.5, 0.5),
            ("good", 4, 2, 0.1, 0.0),
        ],
    ),
    "gain_passages": (
        ["model=good", "tokens=2"],
        ("mean_gain", "highest_gain", "document", "passage"),
        [(1.5, 3.0, "a.txt", "ef"), (0.1, 0.2, "a.txt", "gh")],
    ),
    "gain_words": (
        ["model=good", "least=1", "limit=2"],
        ("token", "occurrences", "mean_gain", "words_of_highest_gain"),
        [("e", 1, 3.0, "abcd[e]fgh"), ("g", 1, 0.2, "abcdef[g]h")],
    ),
    "token_kinds": (
        [],
        ("model_id", "kind", "tokens", "nll", "top_1", "mean_gain", "tokens_with_gain"),
        [("bad", "word", 8, 2.0, 0.0, -0.25, 4), ("good", "word", 8, 0.55, 1.0, 0.8, 4)],
    ),
    "confident_mistakes": (
        ["model=bad", "sure=0.2", "limit=1"],
        ("top_1_probability", "probability", "rank", "words"),
        [(0.25, round(math.exp(-2), 4), 20, "[a]bcdefgh")],
    ),
    "paired_difference": (
        ["model=good"],
        ("model_id", "documents", "difference", "stderr", "documents_worse"),
        [("bad", 1, round(1.45 / math.log(2), 4), None, 1)],
    ),
    "surprising_tokens": (
        ["model=good", "limit=2"],
        ("token", "nll", "rank", "position", "words"),
        [("a", 1.0, 1, 0, "[a]bcdefgh"), ("b", 1.0, 1, 1, "a[b]cdefgh")],
    ),
    "read_tokens": (
        ["model=good", "from_position=3", "tokens=2"],
        ("position", "token", "nll", "rank", "context_tokens"),
        [(3, "d", 1.0, 1, 3), (4, "e", 0.1, 1, 4)],
    ),
    "document_difficulty": (
        [],
        ("document", "models", "bits_per_character", "easiest_for", "hardest_for"),
        [("a.txt", 2, round(1.275 / math.log(2), 4), "good", "bad")],
    ),
    "disagreement": (
        ["model_a=good", "model_b=bad", "limit=1"],
        ("text", "probability_a", "probability_b", "difference", "words"),
        [("e", round(math.exp(-0.1), 4), round(math.exp(-2), 4), 1.9, "abcd[e]fgh")],
    ),
    "kind_gap": (
        ["model_a=good", "model_b=bad"],
        ("kind", "bytes", "documents", "bits_per_byte_a", "bits_per_byte_b", "gap", "stderr"),
        [
            (
                "word",
                8,
                1,
                round(0.55 / math.log(2), 4),
                round(2 / math.log(2), 4),
                round(-1.45 / math.log(2), 4),
                None,
            )
        ],
    ),
    "disagreement_passages": (
        ["model_a=good", "model_b=bad", "characters=4"],
        ("more_bits_for_a", "bits_b", "document", "text"),
        [
            (round(-7.6 / math.log(2), 4), round(8 / math.log(2), 4), "a.txt", "efgh"),
            (round(-4 / math.log(2), 4), round(8 / math.log(2), 4), "a.txt", "abcd"),
        ],
    ),
    "calibration": (
        ["bins=2"],
        ("model_id", "from_probability", "tokens", "mean_probability", "accuracy"),
        [
            ("bad", 0.0, 8, 0.25, 0.0),
            ("good", 0.0, 4, round(math.exp(-1), 4), 1.0),
            ("good", 0.5, 4, round(math.exp(-0.1), 4), 1.0),
        ],
    ),
    "ranks": (
        [],
        ("model_id", "first", "among_10", "among_100", "median_rank", "mean_reciprocal_rank"),
        [("good", 1.0, 1.0, 1.0, 1.0, 1.0), ("bad", 0.0, 0.0, 1.0, 20.0, 0.05)],
    ),
    "repeated_tokens": (
        [],
        ("model_id", "occurrence", "tokens", "nll"),
        [
            ("bad", "first occurrence", 4, 2.0),
            ("bad", "seen < 64 tokens ago", 4, 2.0),
            ("good", "first occurrence", 4, 1.0),
            ("good", "seen < 64 tokens ago", 4, 0.1),
        ],
    ),
    "retrieval_gain": (
        [],
        ("model_id", "excerpts", "mean_gain", "share_helped"),
        [("good", 1, 1.5, 1.0), ("bad", 1, -0.5, 0.0)],
    ),
    "key_tokens": (
        [],
        ("model_id", "tokens", "key_tokens", "key_share", "key_perplexity"),
        [("good", 4, 1, 0.25, round(math.exp(0.1), 4)), ("bad", 4, 0, 0.0, None)],
    ),
    "key_intervals": (
        ["model=good"],
        ("document_sha256", "char_start", "char_end"),
        [("9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab", 4, 5)],
    ),
    "intervention_effect": (
        [],
        ("model_id", "base_id", "from_position", "tokens", "nll_added"),
        [("bad", "good", 1, 2, 1.0), ("bad", "good", 2, 2, 1.0), ("bad", "good", 4, 4, 1.9)],
    ),
    "tokenizers": (
        [],
        ("tokenizer", "prepends_bos", "models", "characters_per_token", "model_ids"),
        [("01234567", True, 2, 1.0, "bad, good")],
    ),
    "entropy": (
        [],
        ("model_id", "tokens", "nll", "entropy", "excess"),
        [("good", 8, 0.55, 1.0, -0.45), ("bad", 8, 2.0, 1.0, 1.0)],
    ),
    "metric_leaders": (
        [],
        ("variant", "model_id", "value"),
        [("per_token", "good", 1.5), ("per_token", "bad", 7.5)],
    ),
}


OF_MARTS = (
    "group_gap", "group_values", "metric_leaders", "models_metrics", "near_duplicates",
)  # fmt: skip
"""Queries of what dbt builds."""


def test_models_and_metrics_in_one_row(filled):
    """Of LongPPL the variant with most values; the model without one says why."""
    filled.database.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        ("perplexity", "micro", "good", 4.0, 8, None),
        ("perplexity", "bits_per_byte", "good", 0.5, 8, None),
        ("perplexity", "bits_per_byte", "bad", 0.75, 8, None),
        ("longppl", "alpha_2", "good", None, 4, "4 of at least 10 tokens"),
        ("longppl", "alpha_2", "bad", None, 0, "0 of at least 10 tokens"),
        ("longppl", "alpha_3", "good", 2.0, 16, None),
        ("longppl", "alpha_3", "bad", None, 1, "1 of at least 10 tokens"),
    ]
    with duckdb.connect(str(filled.database)) as database:
        database.execute(
            "create table metric_values (problem text, metric text, variant text, model_id text,"
            " value double, tokens bigint, reason text)"
        )
        database.executemany("insert into metric_values values ('minilong',?,?,?,?,?,?)", rows)
    columns = ("model_id", "perplexity", "bits_per_byte", "longppl", "longppl_tokens",
               "longppl_empty", "context_gain")  # fmt: skip
    assert rounded(ask("--name", "models_metrics", "--param", "problem=minilong"), *columns) == [
        ("good", 4.0, 0.5, 2.0, 16, None, None),
        ("bad", None, 0.75, None, 1, "1 of at least 10 tokens", None),
    ]


@pytest.fixture
def grouped(filled: Workspace) -> Workspace:
    """One document of code and two of prose, and perplexities that dbt might have built."""
    texts = [
        Document("a", TEXT, "code"),
        Document("b", "two", "prose"),
        Document("c", "x", "prose"),
    ]
    write_table(
        filled.store / "documents" / "problem=minilong" / "documents.parquet",
        documents_table(texts),
    )
    build_mart(filled)
    with duckdb.connect(str(filled.database)) as database:
        database.execute(
            "create table metric_groups as select 'minilong' as problem, 'perplexity' as metric,"
            " 'per_token' as variant, * from (values ('good', 'code', 1.0, 1, 9),"
            " ('good', 'prose', 3.0, 2, 9), ('bad', 'code', 4.0, 1, 9),"
            " ('bad', 'prose', 2.0, 2, 9)) t(model_id, document_group, value, documents, tokens)"
        )
        database.execute(
            "create table metric_documents as select 'minilong' as problem, 'perplexity' as metric,"
            " 'per_token' as variant, 2.0 as denominator, * from (values ('good', 0, 1.0),"
            " ('good', 1, 6.0), ('good', 2, 1.0), ('bad', 0, 4.0), ('bad', 1, 2.0),"
            " ('bad', 2, 2.0)) t(model_id, doc_id, numerator)"
        )
    return filled


def test_the_macro_value_gives_groups_the_same_weight(grouped):
    """(1 + 3) / 2 and (4 + 2) / 2, whatever the documents."""
    rows = ask("--name", "group_values", "--param", "variant=per_token")
    columns = ("model_id", "document_group", "value", "documents", "macro", "overall")
    assert rounded(rows, *columns) == [
        ("good", "code", 1.0, 1, 2.0, 1.5),
        ("good", "prose", 3.0, 2, 2.0, 1.5),
        ("bad", "code", 4.0, 1, 3.0, 7.5),
        ("bad", "prose", 2.0, 2, 3.0, 7.5),
    ]


def test_the_gap_between_two_models_by_group(grouped):
    """Of the two documents of prose the good model has the higher value in one."""
    params = ("variant=per_token", "model_a=good", "model_b=bad")
    rows = ask("--name", "group_gap", *(word for p in params for word in ("--param", p)))
    columns = ("document_group", "value_a", "value_b", "gap", "documents", "documents_higher")
    assert rounded(rows, *columns) == [
        ("code", 1.0, 4.0, -3.0, 1, 0),
        ("prose", 3.0, 2.0, 1.0, 2, 1),
    ]


def test_cookbook_answers_worked_by_hand(filled):
    build_mart(filled)
    with Session(filled) as session:
        for name, (params, columns, expected) in EXPECTED.items():
            pairs = (param.split("=") for param in params)
            given = {key: parse_value(key, value) for key, value in pairs}
            recipe = find_query(name)
            with session.stream(recipe.sql, parameters_of(recipe, given, session)[0]) as rows:
                assert rows
                found = [row for batch in rows.batches for row in batch.to_pylist()]
            assert rounded(found, *columns) == expected, name


@pytest.fixture
def made_up(workspace: Workspace) -> Workspace:
    """Four models, two tokenizers, three documents of 900 tokens."""
    shape = Shape("minilong", models=4, documents=3, tokens=900, windows=(Window(512, 64),))
    write_warehouse(workspace.data, shape)
    return workspace


def by_model(name: str, column: str, **parameters: Any) -> dict[str, float]:
    rows = cookbook(name, **parameters).to_pylist()
    return {row["model_id"]: row[column] for row in rows}


def test_queries_agree_with_each_other(made_up):
    """Two ways to one number: parts add up to the whole."""
    tokens = by_model("perplexity", "tokens")
    nll = by_model("perplexity", "nll_per_token")
    gain = by_model("context_gain", "mean_gain")
    of_kinds, of_reach = (cookbook(name).to_pylist() for name in ("token_kinds", "gain_by_reach"))
    assert len(tokens) == 4
    for model in tokens:
        kinds = [row for row in of_kinds if row["model_id"] == model]
        assert {"word", "number"} <= {row["kind"] for row in kinds}
        assert sum(row["tokens"] for row in kinds) == tokens[model]
        parts = sum(row["tokens"] * row["nll"] for row in kinds)
        assert parts / tokens[model] == pytest.approx(nll[model])
        reach = [row for row in of_reach if row["model_id"] == model]
        # The first block of a window sees as much as the full context does: no reach, no row.
        (farther,) = query(
            "select sum(l.logprob::double - s.logprob::double) as gain, count(*) as tokens"
            " from tokens l join tokens s using (problem, model_id, doc_id, position)"
            " where l.model_id = $model and l.condition = 'full' and s.condition = 'window_512'"
            " and l.context_tokens > s.context_tokens",
            model=model,
        ).to_pylist()
        assert sum(row["tokens"] for row in reach) == farther["tokens"] > 0
        parts = sum(row["tokens"] * row["mean_gain"] for row in reach)
        assert parts == pytest.approx(farther["gain"])
        words = cookbook("gain_words", model=model, least=1, limit=10_000).to_pylist()
        counted = sum(row["occurrences"] for row in words)
        assert sum(row["total_gain"] for row in words) / counted == pytest.approx(gain[model])


@pytest.mark.parametrize("documents", [3, 5])
def test_paired_difference_is_a_paired_t(workspace, documents):
    """Of fewer than five documents there is no z."""
    shape = Shape("minilong", models=4, documents=documents, tokens=300, windows=())
    write_warehouse(workspace.data, shape)
    bits: dict[str, list[float]] = {}
    for row in query(
        "select model_id, -sum(logprob::double) / ln(2)"
        " / octet_length(encode(substr(any_value(text), min(char_start) + 1,"
        " max(char_end) - min(char_start)))) as bits"
        " from tokens join documents using (problem, doc_id) where condition = 'full'"
        " group by model_id, doc_id order by model_id, doc_id"
    ).to_pylist():
        bits.setdefault(row["model_id"], []).append(row["bits"])
    found = cookbook("paired_difference", model="lab--model-0").to_pylist()
    assert len(found) == 3
    for row in found:
        test = ttest_rel(bits[row["model_id"]], bits["lab--model-0"])
        z = pytest.approx(test.statistic) if documents == 5 else None
        assert (row["documents"], row["z"]) == (documents, z)


def test_disagreement_passages_sum_both_models_bits(made_up):
    """Two tokenizers: every token counts once, in the passage it starts in."""
    models = {"model_a": "lab--model-0", "model_b": "lab--model-1"}
    found = cookbook("disagreement_passages", **models, characters=50, limit=10_000).to_pylist()
    assert len(found) > 50
    assert all(len(row["text"]) == 50 for row in found)
    differences = [abs(row["more_bits_for_a"]) for row in found]
    assert differences == sorted(differences, reverse=True)
    for side, model in (("bits_a", "lab--model-0"), ("bits_b", "lab--model-1")):
        whole = query(
            "select -sum(logprob::double) / ln(2) as bits from tokens"
            " where model_id = $model and condition = 'full'",
            model=model,
        )["bits"][0].as_py()
        assert 0.9 * whole < sum(row[side] for row in found) <= whole


def test_every_cookbook_query_is_tested_and_described():
    queries = list_queries()
    assert len(queries) >= 25
    assert {recipe.name for recipe in queries} == {*EXPECTED, *OF_MARTS}
    listed = CliRunner().invoke(cli, ["sql", "--list"]).stdout
    for recipe in queries:
        assert recipe.name in listed
        assert recipe.title
        for parameter in recipe.parameters:
            assert parameter.meaning, f"{recipe.name}: say what {parameter.name} means"
            assert f"${parameter.name}" in recipe.sql, f"{recipe.name}: unused {parameter.name}"


def test_cookbook_queries_run_before_anything_is_extracted(workspace):
    with Session(workspace) as session:
        for recipe in list_queries():
            if recipe.name not in OF_MARTS:
                values, _ = parameters_of(recipe, {}, session)
                with session.stream(recipe.sql, values) as rows:
                    assert rows and sum(batch.num_rows for batch in rows.batches) == 0, recipe.name


@pytest.mark.parametrize("name", ["perplexity", "paired_difference"])
def test_bytes_are_those_of_the_scored_characters(name):
    """Three bytes a character at the end, one at the beginning, which is not scored."""
    text = "ab 中文字"
    spans = {"a": [(2, 3), (3, 4), (3, 4), (4, 6)], "b": [(3, 4), (4, 5), (5, 6)]}
    nats = {"a": 6.0, "b": 3.0}
    rows = ", ".join(
        f"('p', '{model}', 'full', 0, {start}, {end}, {-nats[model] / len(places)}::float)"
        for model, places in spans.items()
        for start, end in places
    )
    ready = (ROOT / "warehouse" / "sql" / "cookbook" / f"{name}.sql").read_text("utf-8")
    query = ready.replace(
        "with by_document as",
        "with tokens(problem, model_id, condition, doc_id, char_start, char_end, logprob)"
        f" as (values {rows}), documents(problem, doc_id, text)"
        f" as (values ('p', 0, '{text}')), by_document as",
    )
    for parameter, value in (("problem", "p"), ("condition", "full"), ("model", "a")):
        query = query.replace(f"${parameter}", f"'{value}'")
    found = duckdb.sql(query).to_arrow_table().to_pylist()
    bits = {model: nats[model] / math.log(2) / size for model, size in (("a", 10), ("b", 9))}
    if name == "perplexity":
        assert {row["model_id"]: row["bits_per_byte"] for row in found} == pytest.approx(bits)
    else:
        assert [row["difference"] for row in found] == [pytest.approx(bits["b"] - bits["a"])]
