"""What may be registered: names that will have a value, once, and before the labels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from analysis.preregistration.cli import preregister
from analysis.preregistration.record import entries, labels_here
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem

ROOT = Path(__file__).parents[2]
VALID = "retrieval_gain/mean@retrieval"


@pytest.fixture
def checkout(workspace: Workspace) -> Workspace:
    """The metrics and problems that ship, and nothing registered."""
    shutil.rmtree(workspace.dbt_project)
    workspace.dbt_project.symlink_to(ROOT / "dbt_project")
    for name in ("no4k", "minilong"):
        shutil.copy(ROOT / "data" / "problems" / f"{name}.yml", workspace.problems)
    return workspace


def register(*arguments: object) -> Result:
    return CliRunner().invoke(preregister, [str(word) for word in arguments])


def refused(result: Result) -> str:
    assert result.exit_code == 1 and result.stderr.count("\n") == 1, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "longppl/alpha_0.5_beta_-2@window_512",
            "write longppl/alpha_0.5_beta_-2@window_4096; see `tokenmart metrics list "
            "--problem no4k --metric longppl`",
        ),
        ("longppl/alpha_0.5_beta_-2", "write longppl/alpha_0.5_beta_-2@window_4096"),
        ("retrieval_gain/mean@nonsense", f"write {VALID}"),
        ("retrieval_gain/mean", f"write {VALID}"),
        ("perplexity/micro@full", "write perplexity/micro"),
        ("retrieval_gain/meen@retrieval", "did you mean 'mean@retrieval'"),
        ("ladder_gain/total", "needs a context of the kind ladder, which problem no4k has not"),
        ("longppl_external/largest_alpha_2_beta_-2@window_4096", "is not admissible"),
        ("retrieval_gian/mean", "did you mean 'retrieval_gain'? see `tokenmart metrics list"),
    ],
)
def test_a_name_without_a_value_is_refused(checkout: Workspace, name: str, words: str) -> None:
    assert words in refused(register("--problem", "no4k", "--metric", name))
    assert entries(checkout, "no4k") == ()


def test_what_is_registered_is_not_registered_again(checkout: Workspace) -> None:
    arguments = ("--problem", "no4k", "--metric", VALID)
    twice = register(*arguments, "--metric", f"{VALID}:higher")
    assert twice.exit_code == 0, twice.output
    assert [len(entry.metrics) for entry in entries(checkout, "no4k")] == [1]
    said = refused(register(*arguments, "--metric", "perplexity/micro"))
    assert f"--metric {VALID}: registered already, in entry 1 of " in said
    file = checkout.problems / "no4k.yml"
    file.write_text(file.read_text().replace("family: yi", "family: yi-of-its-own"))
    assert register(*arguments).exit_code == 0, "of other models it is another claim"


def test_published_scores_are_labels(checkout: Workspace) -> None:
    name = "longppl/alpha_0.5_beta_-2@window_512"
    minilong = load_problem("minilong", checkout)
    assert labels_here(checkout, minilong) == ""
    published = checkout.root / "results" / "minilong" / "downstream_scores.parquet"
    published.parent.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "minilong" / "downstream_scores.parquet", published)
    said = refused(register("--problem", "minilong", "--metric", name))
    assert "published in results/minilong/downstream_scores.parquet: this would be no" in said
    late = register("--problem", "minilong", "--metric", name, "--labels-known")
    assert late.exit_code == 0 and "NOT before labels" in late.stdout


def test_the_problem_must_be_said(checkout: Workspace) -> None:
    result = register("--metric", "perplexity/micro")
    assert result.exit_code == 2 and "say which --problem" in result.stderr
    assert not checkout.preregistered.exists()
    assert register().exit_code == 0, "to look at what is registered needs none"


def test_a_copy_needs_a_name_of_its_own(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    text = (checkout.problems / "no4k.yml").read_text()
    Path("my4k.yml").write_text(text)
    arguments = ("--problem", "my4k.yml", "--metric", VALID)
    said = refused(register(*arguments))
    assert "my4k.yml: name: no4k is that of" in said and "give your file a name" in said
    Path("my4k.yml").write_text(text.replace("name: no4k", "name: my4k", 1))
    assert register(*arguments).exit_code == 0
    assert [path.name for path in checkout.preregistered.glob("*.json")] == ["my4k.json"]
    assert register("--problem", "data/problems/no4k.yml", "--metric", VALID).exit_code == 0


def test_entries_that_ship_stand() -> None:
    for path in sorted((ROOT / "data" / "preregistered").glob("*.json")):
        workspace = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")
        content = json.loads(path.read_text())
        assert len(entries(workspace, path.stem)) == len(content["entries"]) >= 1
