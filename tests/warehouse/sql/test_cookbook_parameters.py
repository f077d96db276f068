"""Parameters of the cookbook: their defaults, and values that are refused."""

from __future__ import annotations

from click.testing import CliRunner
from made_up_warehouse import Shape, Window, write_warehouse
from refusal import refuses
from sql_samples import ask, failure

from tokenmart import cli
from warehouse.sql.dataframes import cookbook, query
from warehouse.sql.queries import list_queries


def test_parameters_fit_what_is_there(workspace):
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


def test_the_problem_extracted_last_is_asked_about(filled):
    """Units of the made-up warehouse ended a day before those of the sample."""
    write_warehouse(filled.data, Shape("earlier", models=2, documents=1, tokens=300))
    assert cookbook("perplexity")["model_id"].to_pylist() == ["good", "bad"]
    found = cookbook("perplexity", problem="earlier")["model_id"].to_pylist()
    assert sorted(found) == ["lab--model-0", "lab--model-1"]
    pair = query("select 1 as one where $a is null", a=None)
    assert pair.num_rows == 1


def test_a_parameter_that_a_query_does_not_have_is_refused(filled):
    with refuses("sql-parameters", "modell"):
        cookbook("top_gain_tokens", "arrow", modell="good")
    assert failure("--name", "top_gain_tokens", "--param", "modell=good")[0] == 1
