"""What may be registered: names that will have a value, once, and before the labels."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from filelock import FileLock

from analysis.preregistration.cli import preregister
from analysis.preregistration.entries import (
    NOT_COVERED,
    entries,
    known_labels,
    preregistered_metrics,
)
from warehouse.errors import TokenmartError
from warehouse.metrics.manifest import current_manifest, manifest_path
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.store.token_files import published_path

ROOT = Path(__file__).parents[2]
VALID = "retrieval_gain/mean@retrieval"


@pytest.fixture
def checkout(workspace: Workspace) -> Workspace:
    """The metrics and problems that ship, and nothing registered."""
    shutil.rmtree(workspace.dbt_project)
    workspace.dbt_project.symlink_to(ROOT / "dbt_project")
    for name in ("no4k", "minilong"):
        text = (ROOT / "data" / "problems" / f"{name}.yml").read_text()
        file = workspace.problems / f"{name}.yml"
        file.write_text(text.replace("labels_known_since: 2026-11-22\n", ""))
    return workspace


def register(*arguments: object) -> Result:
    yes = ["--yes"] if "--metric" in arguments else []
    words = [*map(str, arguments), *yes]
    return CliRunner().invoke(preregister, words, standalone_mode=False)


def refused(result: Result) -> tuple[str, str]:
    """Code and place of the error."""
    assert isinstance(result.exception, TokenmartError), result.output
    return result.exception.code, result.exception.where


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("longppl/alpha_0.5_beta_-2@window_512", "unknown-variant"),
        ("longppl/alpha_0.5_beta_-2", "unknown-variant"),
        ("retrieval_gain/mean@nonsense", "unknown-variant"),
        ("retrieval_gain/mean", "unknown-variant"),
        ("perplexity/micro@full", "unknown-variant"),
        ("retrieval_gain/meen@retrieval", "unknown-variant"),
        ("ladder_gain/total", "missing-probe"),
        ("longppl_external/largest_alpha_2_beta_-2@window_4096", "not-admissible"),
        ("retrieval_gian/mean", "unknown-metric"),
        (f"{VALID}:up", "bad-direction"),
    ],
)
def test_a_name_without_a_value_is_refused(checkout, name, code):
    assert refused(register("--problem", "no4k", "--metric", name)) == (code, name)
    assert entries(checkout, "no4k") == ()


def test_what_is_registered_is_not_registered_again(checkout):
    arguments = ("--problem", "no4k", "--metric", VALID)
    twice = register(*arguments, "--metric", f"{VALID}:higher")
    assert twice.exit_code == 0, twice.output
    assert [len(entry.metrics) for entry in entries(checkout, "no4k")] == [1]
    again = register(*arguments, "--metric", "perplexity/micro")
    assert refused(again) == ("registered-already", "entry 1")
    file = checkout.problems / "no4k.yml"
    file.write_text(file.read_text().replace("family: yi", "family: yi-of-its-own"))
    assert register(*arguments).exit_code == 0, "of other models it is another claim"


def test_published_scores_are_labels(checkout):
    name = "longppl/alpha_0.5_beta_-2@window_512"
    minilong = load_problem("minilong", checkout)
    assert known_labels(checkout, minilong) == ""
    tables = Path("studies") / "minilong" / "tables" / "downstream_scores.parquet"
    published = checkout.root / tables
    published.parent.mkdir(parents=True)
    shutil.copy(ROOT / tables, published)
    found = refused(register("--problem", "minilong", "--metric", name))
    assert found == ("known-labels", f"target scores are in {tables.as_posix()}")
    assert register("--problem", "minilong", "--metric", name, "--labels-known").exit_code == 0
    assert [entry.before_labels for entry in entries(checkout, "minilong")] == [False]


def test_labels_are_known_whatever_the_data_folder_remembers(checkout):
    """By the problem file, or by git's history of the target; an empty data folder is no proof."""
    no4k = checkout.problems / "no4k.yml"
    text = no4k.read_text()
    no4k.write_text(text.replace("name: no4k\n", "name: no4k\nlabels_known_since: 2026-01-31\n"))
    arguments = ("--problem", "no4k", "--metric", VALID)
    found = refused(register(*arguments))
    assert found == ("known-labels", "the problem file states labels_known_since: 2026-01-31")
    no4k.write_text(text)
    assert register(*arguments).exit_code == 0
    no4k.write_text(text.replace("name: no4k\n", "name: no4k\nlabels_known_since: 2026-01-31\n"))
    (late,) = preregistered_metrics(checkout, load_problem("no4k", checkout))
    assert not late.counts
    assert late.changed == ("the problem file states that labels were known from 2026-01-31 on",)
    no4k.write_text(text)

    def git(*words: str) -> None:
        own = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(checkout.root))
        subprocess.run(["git", *own, *words], check=True, capture_output=True)

    problem = load_problem("no4k", checkout)
    assert problem.target is not None and problem.target.kind == "file"
    target = checkout.root / problem.target.path
    target.parent.mkdir(parents=True)
    target.write_text("{}")
    git("init")
    git("add", "--force", str(target))
    git("commit", "-m", "labels")
    target.unlink()
    assert known_labels(checkout, problem).startswith("target scores were committed in ")


def _json(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _manifest(change: Callable[[Any], object]) -> Callable[[Workspace], None]:
    """An edit of dbt's project, as dbt would write it into its manifest."""
    return lambda workspace: _json(manifest_path(workspace), change)


def _model(name: str, old: str, new: str) -> Callable[[Workspace], None]:
    def change(manifest: Any) -> None:
        node = manifest["nodes"][f"model.tokenmart.{name}"]
        assert old in node["raw_code"]
        node["raw_code"] = node["raw_code"].replace(old, new)

    return _manifest(change)


def _macro(name: str) -> Callable[[Workspace], None]:
    def change(manifest: Any) -> None:
        manifest["macros"][f"macro.tokenmart.{name}"]["macro_sql"] += " -- edited"

    return _manifest(change)


def _hook(manifest: Any) -> None:
    node = manifest["nodes"]["model.tokenmart.coverage"]
    node["config"]["post-hook"] = [{"sql": "update metric_values set value = 1"}]


def _override(manifest: Any) -> None:
    macros = manifest["macros"]
    name = "duckdb__create_table_as"
    theirs = macros[f"macro.dbt_duckdb.{name}"]
    macros[f"macro.tokenmart.{name}"] = {**theirs, "package_name": "tokenmart"}


def _problem(old: str, new: str) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        file = workspace.problems / "tiny.yml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return change


def _other_checkpoint(workspace: Workspace) -> None:
    """The weights of the second model under the path of the first."""
    one, two = (workspace.root / name for name in ("one", "two"))
    shutil.rmtree(one)
    shutil.copytree(two, one)


def _moved_checkpoint(workspace: Workspace) -> None:
    (workspace.root / "one").rename(workspace.root / "moved")
    _problem(str(workspace.root / "one"), str(workspace.root / "moved"))(workspace)


def _text(workspace: Workspace) -> None:
    _json(workspace.root / "data" / "corpus.json", lambda texts: texts.__setitem__(1, "Edited."))


def _copied(workspace: Workspace) -> None:
    """Entries of another problem under this one's name: their hashes are in order."""
    file = workspace.problems / "tiny.yml"
    file.write_text(file.read_text().replace("name: tiny\n", "name: copy\n"))
    record = workspace.preregistered / "tiny.json"
    record.rename(record.with_name("copy.json"))


CHANGES: list[tuple[str, Callable[[Workspace], None], dict[str, list[str]]]] = [
    # what was edited, how, and what the entries of a metric of excerpts and of one of tokens say
    ("nothing", lambda workspace: None, {}),
    ("gain negated", _model("retrieval_excerpts", "nll as gain", "nll * -1 as gain"),
     {"excerpts": ["retrieval_excerpts.sql changed since"]}),
    ("nll doubled", _model("fct_tokens", "as double) as nll", "as double) * 2 as nll"),
     {"tokens": ["fct_tokens.sql changed since"]}),
    ("the metric's own SQL", _model("perplexity", "metric(", " metric("),
     {"tokens": ["perplexity.sql changed since"]}),
    ("another metric", _model("longppl", "using (unit_id)", "using (doc_id)"), {}),
    ("another metric in the list of all", _model("metric_documents", "ref('longppl'),",
                                                 "ref('longppl_soft'),"), {}),
    ("documents combined otherwise", _model("metric_documents", "numerator,", "-numerator,"),
     {"both": ["metric_documents.sql changed since"]}),
    ("a macro of theirs", _macro("metric"), {"both": ["macro metric changed since"]}),
    ("a macro of a macro", _macro("declare_variants"),
     {"both": ["macro declare_variants changed since"]}),
    ("a macro after them", _macro("combined_documents"),
     {"both": ["macro combined_documents changed since"]}),
    ("a macro of neither", _macro("probe_tokens"),
     {"excerpts": ["macro probe_tokens changed since"]}),
    ("a hook", _manifest(_hook), {"both": ["hooks changed since"]}),
    ("a macro in place of dbt's", _manifest(_override),
     {"both": ["macro duckdb__create_table_as was added since"]}),
    ("a text", _text, {"both": ["texts changed since"]}),
    ("another checkpoint", _other_checkpoint, {"both": ["the files of tiny/one changed since"]}),
    ("the same files elsewhere", _moved_checkpoint, {}),
    ("a dtype", _problem("dtype: float32\n  family: two", "dtype: bfloat16\n  family: two"),
     {"both": ["the settings of tiny/two changed since"]}),
    ("a probe", _problem("context: 24", "context: 16"),
     {"both": ["condition window_24 changed since"]}),
    ("a title", _problem("title: Tiny random models", "title: Others"), {}),
    ("documents", _problem("path: data/corpus.json", "path: data/corpus.json\n  max_tokens: 64"),
     {"both": ["documents changed since"]}),
    ("the target", _problem("results/target.json", "results/other.json"),
     {"both": ["target changed since"]}),
    ("another problem's entries", _copied, {"both": ["the entry is of the problem tiny"]}),
]  # fmt: skip


@pytest.fixture
def registered(workspace: Workspace, tiny_problem: Callable[..., Path]) -> Workspace:
    """Two metrics of a tiny problem, registered with its texts and files here."""
    current_manifest(Workspace(ROOT, workspace.data, workspace.database))  # parsed once for all
    shutil.rmtree(workspace.dbt_project)
    shutil.copytree(ROOT / "dbt_project", workspace.dbt_project)
    file = tiny_problem()
    text = file.read_text()
    for name, model in zip(("one", "two"), yaml.safe_load(text)["models"], strict=True):
        folder = workspace.root / name
        shutil.copytree(model["source"]["path"], folder)
        text = text.replace(model["source"]["path"], str(folder))
    file.write_text(text)
    arguments = ("--metric", VALID, "--metric", "perplexity/micro")
    assert register("--problem", "tiny", *arguments).exit_code == 0
    return workspace


@pytest.mark.parametrize(("what", "edit", "expected"), CHANGES, ids=[each[0] for each in CHANGES])
def test_an_entry_names_what_changed_since(registered, what, edit, expected):
    """And counts as exploratory from then on; what a metric doesn't read changes nothing."""
    edit(registered)
    excerpts, tokens = preregistered_metrics(registered, load_problem("tiny", registered))
    both = expected.get("both", [])
    for name, found in (("excerpts", excerpts), ("tokens", tokens)):
        said = expected.get(name, both)
        assert list(found.changed) == said and found.counts == (not said)
        assert found.entry.not_covered == ()


def test_a_project_that_dbt_cannot_parse_is_dbts_error(registered):
    (registered.dbt_project / "models" / "metrics" / "perplexity.sql").write_text("{{ metric( }}")
    with pytest.raises(TokenmartError, match=r"perplexity\.sql") as error:
        preregistered_metrics(registered, load_problem("tiny", registered))
    assert error.value.code == "dbt-parse"


def test_an_entry_is_replaced_before_labels_and_kept(checkout):
    arguments = ("--problem", "no4k", "--metric", VALID)
    assert register(*arguments).exit_code == 0
    file = checkout.problems / "no4k.yml"
    file.write_text(file.read_text().replace("excerpts: 16,", "excerpts: 8,"))
    reason = ("--reason", "fewer excerpts")
    alone, none = ("--supersedes", 1), ("--supersedes", 7, *reason)
    assert refused(register(*arguments, *alone)) == ("reason-missing", "--reason")
    assert refused(register(*arguments, *none)) == ("no-entry", "--supersedes")
    assert register(*arguments, "--supersedes", 1, *reason).exit_code == 0
    first, second = preregistered_metrics(checkout, load_problem("no4k", checkout))
    assert first.replaced and first.changed[0] == "entry 2 replaced it (fewer excerpts)"
    assert second.counts and not second.changed
    target = checkout.root / "results/downstream/downstream_avg.ruler32_longbench_lt32k.no4k.json"
    target.parent.mkdir(parents=True)
    target.write_text("{}")
    late = ("--supersedes", 2, *reason, "--labels-known")
    assert refused(register(*arguments, *late))[0] == "known-labels"


def test_the_problem_must_be_said(checkout):
    result = register("--metric", "perplexity/micro")
    assert isinstance(result.exception, TokenmartError)
    file = published_path(checkout, "no4k", "a", "full")
    file.parent.mkdir(parents=True)
    file.touch()
    # what was extracted last is shown, and nothing is registered for it unasked
    assert register().exit_code == 0
    assert isinstance(register("--metric", "perplexity/micro").exception, click.UsageError)
    assert not checkout.preregistered.exists()


def test_nothing_is_registered_without_a_yes(checkout):
    words = ["--problem", "no4k", "--metric", VALID]
    unasked = CliRunner().invoke(preregister, words, standalone_mode=False)
    assert isinstance(unasked.exception, click.Abort)
    assert not (checkout.preregistered / "no4k.json").exists()
    assert CliRunner().invoke(preregister, [*words, "--yes"]).exit_code == 0
    assert (checkout.preregistered / "no4k.json").exists()


def test_an_entry_waits_for_another_that_is_being_confirmed(checkout, monkeypatch):
    monkeypatch.setattr("analysis.preregistration.entries.LOCK_SECONDS", 0.1)
    arguments = ("--problem", "no4k", "--metric", VALID)
    path = checkout.preregistered / "no4k.json"
    with FileLock(f"{path}.lock"):
        assert refused(register(*arguments)) == ("storage", str(path))
    assert register(*arguments).exit_code == 0


@pytest.mark.parametrize("level", ["nan", "0.000001"])
def test_an_entry_that_could_not_be_read_again_is_not_written(checkout, level):
    """JSON has no NaN: with one in it, every later command would refuse the file. A level of one in
    a million takes gigabytes of draws: no later command would end."""
    wrong = register("--problem", "no4k", "--metric", VALID, "--level", level)
    assert isinstance(wrong.exception, click.BadParameter)
    assert not checkout.preregistered.exists()


def test_a_copy_needs_a_name_of_its_own(checkout, monkeypatch):
    monkeypatch.chdir(checkout.root)
    text = (checkout.problems / "no4k.yml").read_text()
    Path("my4k.yml").write_text(text)
    arguments = ("--problem", "my4k.yml", "--metric", VALID)
    assert refused(register(*arguments)) == ("name-taken", "my4k.yml")
    Path("my4k.yml").write_text(text.replace("name: no4k", "name: my4k", 1))
    assert register(*arguments).exit_code == 0
    assert [path.name for path in checkout.preregistered.glob("*.json")] == ["my4k.json"]
    assert register("--problem", "data/problems/no4k.yml", "--metric", VALID).exit_code == 0


def test_shipped_entries_are_valid():
    for path in sorted((ROOT / "data" / "preregistered").glob("*.json")):
        workspace = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")
        content = json.loads(path.read_text())
        assert len(entries(workspace, path.stem)) == len(content["entries"]) >= 1


def test_the_entry_of_the_locked_problem_is_what_would_be_computed():
    """After a change of its SQL or of no4k.yml: register it again, with --supersedes."""
    workspace = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")
    *replaced, last = preregistered_metrics(workspace, load_problem("no4k", workspace))
    assert all(each.replaced for each in replaced)
    assert last.counts and last.metric.name == VALID, last.changed
    assert last.entry.not_covered == NOT_COVERED


def test_nothing_was_registered_for_minilong_before_its_labels():
    workspace = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")
    (only,) = preregistered_metrics(workspace, load_problem("minilong", workspace))
    assert not only.counts and "labels were known from 2026-11-22 on" in only.changed[0]
