"""Parameters of the cookbook: their defaults, and values that are refused."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from made_up_warehouse import Shape, Window, write_warehouse
from sql_samples import ask, failure

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.dataframes import cookbook, query
from warehouse.sql.queries import list_queries


def test_the_list_shows_parameters_and_the_sql_can_be_read(workspace: Workspace) -> None:
    listed = CliRunner().invoke(cli, ["sql", "--list"]).output
    assert "perplexity: Perplexity and bits per byte" in listed
    assert "--param short=…  the short-context condition" in listed
    assert "--param limit=20  how many" in listed
    assert "sum(nll)" in CliRunner().invoke(cli, ["sql", "--name", "perplexity", "--show"]).output


def test_a_query_with_nothing_to_choose_from_says_so(workspace: Workspace) -> None:
    said = CliRunner().invoke(cli, ["sql", "--name", "top_gain_tokens"])
    assert (said.exit_code, "(no rows)" in said.stdout) == (0, True)
    assert said.stderr == (
        "top_gain_tokens: nothing was extracted to choose problem, model, short from; run "
        "`tokenmart extract --problem demo`\n"
    )


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
    ("value", "message"),
    [
        ("model=god", "--param model=god: not in problem minilong; did you mean 'good'?"),
        ("model=zzz", "--param model=zzz: not in problem minilong; there are bad, good"),
        ("short=window_51", "did you mean 'window_512'?"),
        ("document=7", "--param document=7: not in problem minilong; there are -1, 0"),
        ("problem=minilung", "did you mean 'minilong'?"),
        ("modell=good", "--param modell"),
    ],
)
def test_a_value_that_nothing_is_called_is_refused(
    filled: Workspace, value: str, message: str
) -> None:
    code, output = failure("--name", "top_gain_tokens", "--param", value)
    assert code == 1
    assert message in output and output.count("error: ") == 1
    name, _, given = value.partition("=")
    with pytest.raises(TokenmartError):
        cookbook("top_gain_tokens", "arrow", **{name: given})
