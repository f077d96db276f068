"""Parameters of the cookbook: their defaults, and values that are refused."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from made_up_warehouse import Shape, Window, write_warehouse
from refusal import refuses
from sql_samples import ask, failure

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sql.dataframes import cookbook, query
from warehouse.sql.queries import list_queries


def test_parameters_fit_what_is_there(workspace: Workspace) -> None:
    """Another problem, models and condition than any file could name: every query has rows."""
    shape = Shape("elsewhere", models=3, documents=2, tokens=900, windows=(Window(200, 64),))
    write_warehouse(workspace.data, shape)
    empty = {
        "failures",  # nothing failed
        "intervention_effect",  # no model is an intervention
        "group_gap",
        "group_values",
        "metric_leaders",
        "models_metrics",
        "near_duplicates",
    }
    for recipe in list_queries():
        if recipe.name not in empty:
            assert ask("--name", recipe.name), recipe.name
    said = CliRunner().invoke(cli, ["sql", "--name", "gain_words", "--param", "least=1"]).stderr
    assert said == "gain_words: problem=elsewhere model=lab--model-0 short=window_200\n"
    given = CliRunner().invoke(cli, ["sql", "--name", "tokenizers", "--param", "problem=elsewhere"])
    assert given.stderr == "" and given.exit_code == 0


def test_the_problem_extracted_last_is_asked_about(filled: Workspace) -> None:
    """Units of the made-up warehouse ended a day before those of the sample."""
    write_warehouse(filled.data, Shape("earlier", models=2, documents=1, tokens=300))
    assert cookbook("perplexity")["model_id"].to_pylist() == ["good", "bad"]
    found = cookbook("perplexity", problem="earlier")["model_id"].to_pylist()
    assert sorted(found) == ["lab--model-0", "lab--model-1"]
    pair = query("select 1 as one where $a is null", a=None)
    assert pair.num_rows == 1


@pytest.mark.parametrize(
    ("value", "code", "where"),
    [
        ("model=god", "unknown-value", "--param model"),
        ("short=window_51", "unknown-value", "--param short"),
        ("problem=minilung", "unknown-problem", "--param problem"),
        ("modell=good", "sql-parameters", "modell"),
    ],
)
def test_a_value_that_nothing_is_called_is_refused(
    filled: Workspace, value: str, code: str, where: str
) -> None:
    name, _, given = value.partition("=")
    with refuses(code, where):
        cookbook("top_gain_tokens", "arrow", **{name: given})
    assert failure("--name", "top_gain_tokens", "--param", value)[0] == 1


def test_a_query_with_nothing_to_choose_from_has_no_rows(workspace: Workspace) -> None:
    assert ask("--name", "top_gain_tokens") == []


def test_a_problem_file_is_enough_to_be_asked_about(filled: Workspace) -> None:
    (filled.problems / "no4k.yml").touch()
    own = "select count(*) as n from tokens where problem = $problem"
    assert ask(own, "--param", "problem=no4k") == [{"n": 0}]
    assert ask(own, "--param", "problem=minilong") == [{"n": 32}]
    with refuses("unknown-problem", "--param problem"):
        query(own, problem="12")
