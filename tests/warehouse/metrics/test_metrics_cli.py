"""`tokenmart metrics`: the catalogue on the terminal, and a new metric that builds immediately."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse
from scipy.stats import spearmanr

from warehouse.metrics.cli import metrics
from warehouse.metrics.dbt_process import run_dbt
from warehouse.metrics.near_duplicates import (
    LEAST_MODELS,
    Correlation,
    correlate_variants,
    group_near_duplicates,
    take_census,
)


@pytest.fixture
def cli(built: Warehouse, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(built.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(built.database))
    return CliRunner()


def test_list_names_every_metric_with_its_formula(cli: CliRunner) -> None:
    shown = cli.invoke(metrics, ["list"])
    assert shown.exit_code == 0, shown.output
    assert "longppl_external" in shown.output
    assert "not admissible" in shown.output
    assert "\n    caution: selects on success: the key tokens are those" in shown.output
    rows = json.loads(cli.invoke(metrics, ["list", "--admissible", "--json"]).output)
    assert len(rows) >= 300
    assert all(row["admissible"] and row["formula"] for row in rows)


def test_before_a_build_the_files_say_what_the_catalogue_will(
    cli: CliRunner, built: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        row["metric"]: row for row in json.loads(cli.invoke(metrics, ["list", "--json"]).stdout)
    }
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    shown = cli.invoke(metrics, ["list", "--json"])
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.count("\n") == 1 and "run `tokenmart dbt build` for values" in shown.stderr
    written = {row["metric"]: row for row in json.loads(shown.stdout)}
    assert len(written) >= 20
    for metric, row in written.items():
        assert row["needs"] and row["formula"]
        for field in ("family", "direction", "admissible", "transform", "caution", "formula"):
            assert row[field] == told[metric][field], (metric, field)
    in_words = cli.invoke(metrics, ["show", "longppl"])
    assert in_words.exit_code == 0, in_words.output
    assert "longppl: lower is better\nCaution: selects on success" in in_words.stdout
    assert "\nTraps: " in in_words.stdout and "gain > 0.1 and nll < 1" in in_words.stdout
    unknown = cli.invoke(metrics, ["show", "longpl"])
    assert unknown.exit_code == 1 and "no 'longpl' in the catalogue" in unknown.output
    assert cli.invoke(metrics, ["census"]).exit_code != 0


def test_show_prints_values_and_what_ranks_alike(cli: CliRunner, built: Warehouse) -> None:
    shown = json.loads(cli.invoke(metrics, ["show", "perplexity/micro", "--json"]).output)
    assert {row["model_id"]: row["value"] for row in shown["values"]} == {
        model: value
        for (variant, model), value in built.values("perplexity").items()
        if variant == "micro"
    }
    in_words = cli.invoke(metrics, ["show", "longppl"]).output
    assert "\nCaution: selects on success" in in_words and "\nTraps: " in in_words
    assert all(abs(row["spearman"]) <= 1 + 1e-9 for row in shown["closest"])
    assert len(shown["closest"]) == 5


@pytest.mark.parametrize("metric", ["perplexity", "longppl_external", "retrieval_gain"])
def test_rank_correlations_are_scipys(built: Warehouse, metric: str) -> None:
    """Every variant against every variant of every metric, over the models both have."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for name, variant, model, value in built.rows(
        "select metric, variant, model_id, value from metric_values where isfinite(value)"
    ):
        values.setdefault((name, variant), {})[model] = value
    expected = {}
    for (name, variant), mine in values.items():
        if name != metric:
            continue
        for other, theirs in values.items():
            common = sorted(mine.keys() & theirs.keys())
            if other == (metric, variant) or len(common) < LEAST_MODELS:
                continue
            pairs = [mine[m] for m in common], [theirs[m] for m in common]
            if min(len(set(side)) for side in pairs) > 1:
                rho = spearmanr(*pairs).statistic
                expected[(variant, *other)] = (len(common), rho)
    with duckdb.connect(str(built.database), read_only=True) as connection:
        found = {
            (pair.variant, pair.other_metric, pair.other_variant): (pair.models, pair.spearman)
            for pair in correlate_variants(connection, metric, None, None)
        }
    assert len(expected) > 300
    assert found.keys() == expected.keys()
    for key, (models, rho) in expected.items():
        assert found[key] == (models, pytest.approx(rho, abs=1e-12))


def test_rank_correlations_over_different_models() -> None:
    """`b` lacks model 4, `c` lacks model 1: ranks are taken among the models both have."""
    table = {
        "a": {"1": 1.0, "2": 2.0, "3": 2.0, "4": 0.0, "5": 9.0},
        "b": {"1": 5.0, "2": 1.0, "3": 3.0, "5": 7.0},
        "c": {"2": 0.5, "3": 0.1, "4": 0.3, "5": 0.2},
        "d": {"1": 1.0, "2": 2.0},
    }
    with duckdb.connect() as connection:
        connection.execute(
            "create table metric_values"
            " (problem text, metric text, variant text, model_id text, value double)"
        )
        rows = [("p", "m", v, model, x) for v, given in table.items() for model, x in given.items()]
        rows += [("p", "m", "b", "4", None), ("p", "m", "c", "1", float("nan"))]
        connection.executemany("insert into metric_values values (?, ?, ?, ?, ?)", rows)
        found = {
            (pair.variant, pair.other_variant): (pair.models, pair.spearman)
            for pair in correlate_variants(connection, "m", None, None)
        }
    assert len(found) == 6, "d has two models only"
    for (one, other), (models, rho) in found.items():
        common = sorted(table[one].keys() & table[other].keys())
        sides = ([table[name][m] for m in common] for name in (one, other))
        assert (models, rho) == (len(common), pytest.approx(spearmanr(*sides).statistic))


def both_ways(problem: str, a: str, b: str, rho: float) -> list[Correlation]:
    """The pair as both variants see it."""
    return [Correlation(problem, a, "m", b, 9, rho), Correlation(problem, b, "m", a, 9, rho)]


def test_groups_hold_what_is_close_to_their_first() -> None:
    pairs = [
        *both_ways("p", "a", "b", 0.995),
        *both_ways("p", "b", "c", -1.0),
        *both_ways("p", "a", "c", 0.98),  # close to b, not to a: b leads
        *both_ways("p", "d", "e", 0.99),
        *both_ways("p", "e", "a", 0.5),
        *both_ways("q", "a", "c", 1.0),
        Correlation("p", "f", "elsewhere", "a", 9, 1.0),  # of another metric: no group of this one
    ]
    groups = [
        (group.problem, group.leader, [pair.other_variant for pair in group.members])
        for group in group_near_duplicates(pairs, "m", 0.99)
    ]
    assert groups == [("p", "b", ["a", "c"]), ("p", "d", ["e"]), ("q", "a", ["c"])]
    assert [g.leader for g in group_near_duplicates(pairs, "m", 1.0)] == ["b", "a"]
    assert group_near_duplicates([], "m", 0.99) == []


def test_show_names_settings_ends_and_near_duplicates(
    cli: CliRunner, built: Warehouse, tmp_path: Path
) -> None:
    shown = cli.invoke(metrics, ["show", "perplexity"])
    assert shown.exit_code == 0, shown.output
    assert "Formula: `exp(-Σ log p / N)`" in shown.output
    formula = "(sum(nll) / ln(2)) / (max(byte_end) - min(byte_start))"
    assert f"bits_per_byte  micro over tokens: {formula}\n" in shown.output
    assert "\nmicro  exp of micro over tokens: sum(nll) / count(*)\n" in shown.output
    micro = {m: x for (v, m), x in built.values("perplexity").items() if v == "micro" and x}
    first, last = min(micro, key=micro.__getitem__), max(micro, key=micro.__getitem__)
    ends = f"4 of 4 models: {micro[first]:.4g} {first} … {micro[last]:.4g} {last}"
    assert ends in shown.output
    assert "Near-duplicates (|rho| >= 0.99" in shown.output
    everything = cli.invoke(metrics, ["show", "perplexity", "--values"]).output
    assert all(f"{value:.6g}" in everything for value in micro.values())
    found = json.loads(cli.invoke(metrics, ["show", "perplexity", "--json"]).output)
    for group in found["near_duplicates"]:
        assert all(abs(pair["spearman"]) >= 0.99 - 1e-9 for pair in group["members"])
    none = cli.invoke(metrics, ["show", "perplexity", "--problem", "no4k"]).output
    assert "none of the" in none
    for words in (["show", "perplexity"], ["census"]):
        wrong = cli.invoke(metrics, [*words, "--problem", "nowhere"])
        assert wrong.exit_code == 1 and "nowhere.yml: no such problem file" in wrong.output
    mine = tmp_path / "mine.yml"
    mine.write_text("name: synthetic\n")
    by_path = cli.invoke(metrics, ["show", "perplexity", "--problem", str(mine), "--json"]).output
    assert json.loads(by_path)["values"] == found["values"]


def test_list_of_one_metric_shows_its_settings(cli: CliRunner) -> None:
    shown = cli.invoke(metrics, ["list", "--metric", "longppl"]).output
    assert (
        "alpha_2_beta_-2@window_64  exp of micro over key_tokens: sum(nll) / count(*) "
        "where gain > 2 and nll < 2\n" in shown
    )


def test_names_in_a_problem_are_those_that_its_values_get(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before a build, for every variant: the published values of minilong are among them."""
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    shown = CliRunner().invoke(metrics, ["list", "--problem", "minilong"])
    assert shown.exit_code == 0, shown.output
    *lines, last = shown.stdout.splitlines()
    cut = next(n for n, line in enumerate(lines) if line.startswith("built with `tokenmart dbt"))
    # the core comes first
    assert last.endswith(f" metrics; {cut} in the core") and cut < 100
    assert lines[cut].endswith(f"{len(lines) - cut - 1} more")
    names = [line.split("  ")[0] for line in (*lines[:cut], *lines[cut + 1 :])]
    assert len(names) == len(set(names)) > 300
    published = PROJECT.parent / "studies" / "minilong" / "tables" / "metric_values.parquet"
    valued = duckdb.sql(f"select distinct metric || '/' || variant from '{published}'").fetchall()
    assert {name for (name,) in valued} <= set(names)
    assert {"retrieval_gain/mean@retrieval", "perplexity/micro"} <= set(names)
    assert not any(name.startswith("ladder_gain/") for name in names)


def test_names_in_a_problem_are_narrowed_and_marked(cli: CliRunner) -> None:
    chosen = ["list", "--problem", "no4k", "--metric"]
    gain = cli.invoke(metrics, [*chosen, "retrieval_gain"]).output
    formula = "micro over retrieval_excerpts: sum(gain / tokens) / count(*)\n"
    assert f"retrieval_gain/mean@retrieval  {formula}" in gain
    core, _, others = gain.partition("built with `tokenmart dbt run --vars 'grids: true'`: ")
    assert formula in core and "sum(without_document_nll / tokens)\n" in others
    assert gain.endswith("15 variants of 1 metric; 3 in the core\n")
    assert "  (not admissible)\n" in cli.invoke(metrics, [*chosen, "longppl_external"]).output
    ladder = cli.invoke(metrics, [*chosen, "ladder_gain"])
    assert ladder.exit_code == 1 and "no context of the kind ladder" in ladder.output
    rows = json.loads(cli.invoke(metrics, [*chosen, "rank_gain", "--json"]).output)
    assert {row["variant"].partition("@")[2] for row in rows} == {"window_4096"}


def test_show_says_how_many_of_the_variants_it_shows(
    cli: CliRunner, built: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tmp_path / "few.duckdb"
    with duckdb.connect(str(few)) as connection:
        connection.execute(f"attach '{built.database}' as all_of_it (read_only)")
        for table in ("metric_catalog", "metric_values"):
            connection.execute(f"create table {table} as from all_of_it.{table}")
        connection.execute("delete from metric_catalog where not core")
    monkeypatch.setenv("TOKENMART_DATABASE", str(few))
    shown = cli.invoke(metrics, ["show", "retrieval_gain", "--problem", "no4k"]).output
    grids = "`tokenmart dbt run --vars 'grids: [retrieval_gain]'`"
    assert f"\n3 of 15 variants; the others come with {grids}" in shown
    assert "`tokenmart metrics list --problem no4k --metric retrieval_gain`" in shown
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    assert (
        "\n15 of 15 variants; all names" in cli.invoke(metrics, ["show", "retrieval_gain"]).output
    )


def test_an_unknown_metric_is_named_with_the_known_ones(cli: CliRunner) -> None:
    for name in ("perplexitty", "perplexitty/all"):
        shown = cli.invoke(metrics, ["show", name])
        assert shown.exit_code == 1
        assert "perplexitty" in shown.output
        assert "did you mean 'perplexity'?" in shown.output


def test_a_variant_without_its_context_is_shown_in_every_context(
    cli: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(name: str) -> list[dict[str, str]]:
        result = cli.invoke(metrics, ["show", name, "--json"])
        rows: list[dict[str, str]] = json.loads(result.stdout)["catalog"]
        return rows

    every = [row["variant"] for row in shown("retrieval_gain")]
    one = next(variant for variant in every if "@" in variant)
    bare = one.partition("@")[0]
    assert [row["variant"] for row in shown(f"retrieval_gain/{bare}")] == [
        variant for variant in every if variant.partition("@")[0] == bare
    ]
    assert [row["variant"] for row in shown(f"retrieval_gain/{one}")] == [one]
    wrong = cli.invoke(metrics, ["show", f"retrieval_gain/{one}9"])
    assert wrong.exit_code == 1
    assert f"retrieval_gain has no variant '{one}9'; did you mean '{one}'?" in wrong.output
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "none.duckdb"))
    assert [row["variant"] for row in shown(f"retrieval_gain/{one}")] == [bare]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Bad-Name"], "metrics new Bad-Name: use lower-case letters, digits and _"),
        (["9lives"], "metrics new 9lives: use lower-case letters"),
        (["perplexity"], "models/marts/metrics/perplexity.sql exists; choose another name"),
        (["x", "--where", "postion > 1"], "--where reads the column postion, which tokens lacks;"),
        (["x", "--denominator", "sum(nll"], "--denominator is no SQL expression: sum(nll; check"),
        (["x", "--where", "(select true)"], "--where has a subquery; use columns of tokens only"),
        (["x", "--where", "nll\n> 1"], "--where has a line end; remove it"),
        (["x", "--denominator", "nll"], "metrics new x: Binder Error"),
        (["x", "--denominator", "sum(gain)"], "--denominator reads gain, which only tokens that a"),
    ],
)
def test_new_refuses_what_would_not_build(cli: CliRunner, arguments: list[str], said: str) -> None:
    shown = cli.invoke(metrics, ["new", *arguments, "--numerator", "sum(nll)"])
    assert shown.exit_code == 1
    assert said in shown.output and len(shown.output.splitlines()) == 1
    assert not (PROJECT / "variants" / "x.csv").exists()


@pytest.mark.slow
def test_a_metric_is_a_query_or_three_expressions_that_build_as_they_are_written(
    built: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The mean gain of tokens whose word last occurred far back: both ways give the same."""
    copy = built.copied(tmp_path)
    pairs = ["--over", "token_pairs", "--numerator", "sum(gain)", "--direction", "higher"]
    with copy.as_workspace() as workspace:
        for arguments in (
            ["late_nll", "--numerator", "sum(nll)", "--where", "position >= 100"],
            ["all_gain", *pairs],
            ["far_word", *pairs, "--where", "word_distance > 100"],
            ["letter_bits", "--numerator", "sum(nll) / ln(2)", "--denominator", "sum(bytes)"],
            ["of_none", "--numerator", "max(nll)", "--where", "not is_number and rank = 77"],
        ):
            done = CliRunner().invoke(metrics, ["new", *arguments])
            assert done.exit_code == 0, done.output
            assert done.output.count("wrote dbt_project/") == 4
        capfd.readouterr()
        assert run_dbt(("build",), workspace) == 0
    said = capfd.readouterr().out
    names = ("late_nll", "all_gain", "far_word", "letter_bits", "of_none")
    assert [f"PASS token_metrics::{name}_by_hand" in said for name in names] == [True] * 5, said
    gains = built.values("context_gain")
    assert copy.values("all_gain")["micro@window_64", "lab--model-0"] == pytest.approx(
        gains["mean@window_64", "lab--model-0"]
    )
    asked = dict(
        copy.rows(
            "select model_id, avg(gain) from fct_tokens where problem = 'synthetic' "
            "and word_distance > 100 and pair = 'window_64' and gain is not null group by model_id"
        )
    )
    found = copy.values("far_word")
    assert len(asked) == 4
    for model, value in asked.items():
        assert found["micro@window_64", model] == pytest.approx(value, rel=1e-9), model


def test_census_counts_rankings_and_names_what_has_no_value() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "create table metric_catalog as from (values ('nll', 'a', 'lower', true), "
            "('nll', 'b', 'lower', false), ('gain', 'a', 'higher', true), "
            "('gain', 'far', 'higher', true), ('gain', 'lost', 'higher', false)) "
            "as c(metric, variant, direction, core)"
        )
        connection.execute(
            "create table metric_values as select 'p' as problem, *, if(value is null, 'few', null)"
            " as reason from (values ('nll', 'a', 'x', 1.0), ('nll', 'a', 'y', 2.0), "
            "('nll', 'b', 'x', 2.0), ('nll', 'b', 'y', 2.0), ('gain', 'a', 'x', 9.0), "
            "('gain', 'a', 'y', 8.0), ('gain', 'far', 'x', null), ('gain', 'far', 'y', null)"
            ") as v(metric, variant, model_id, value)"
        )
        found = take_census(connection, "p")
    assert len(found.variants) == 5 and found.rankings == 2
    assert (found.core_variants, found.core_rankings) == (3, 1)
    assert found.alike == (("gain a", "nll a"),)
    assert found.without_value == {
        "few": ("gain far",),
        "no row: no probe of its kind": ("gain lost",),
    }


def test_census_is_shown(cli: CliRunner, built: Warehouse) -> None:
    shown = cli.invoke(metrics, ["census"]).output
    # variants of key text that was found elsewhere have no row before it is imported
    (variants,) = built.rows(
        "select count(*) from (select metric, variant from metric_values union "
        "select metric, variant from metric_catalog)"
    )
    assert shown.startswith(f"synthetic: {variants[0]} variants, ")
    assert "    alike: " in shown and "    no value (" in shown


@pytest.mark.parametrize("words", [("show",), ("list", "--metric"), ("list", "--family")])
def test_a_name_that_is_no_text_is_no_metric(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(metrics, [*words, "p\udcff"])
    assert done.exit_code == 1
    assert done.stderr == "error: p\\udcff: no such metric; see `tokenmart metrics list`\n"
