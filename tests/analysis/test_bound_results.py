"""A result is bound to what made it: edits, and what each command says of numbers made before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse
from tiny_models import make_checkpoint, make_text

from extract.planning.selection import select
from extract.planning.tables import make_plan
from tokenmart import cli
from warehouse.paths import workspace_of
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.sql.problem_state import read_states
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path, read_rows, write_units

pytestmark = pytest.mark.slow

WINDOW = {"kind": "window", "name": "w", "context": 24, "stride": 8}
PROBLEM: dict[str, Any] = {
    "name": "tiny",
    "title": "Tiny random models",
    "documents": {"kind": "json", "path": "data/corpus.json"},
    "models": [
        {
            "full_id": f"tiny/{name}",
            "family": name,
            "dtype": "float32",
            "source": {"kind": "local", "path": f"checkpoints/{name}"},
        }
        for name in ("a", "b", "c", "d")
    ],
    "probes": [
        {"kind": "full"},
        WINDOW,
        {
            "kind": "retrieval",
            "name": "far",
            "excerpts": 4,
            "excerpt_tokens": 8,
            "answer_tokens": 4,
            "min_gap": 16,
            "controls": ["foreign"],
        },
    ],
    "target": {"kind": "file", "path": "results/target.json"},
}


class Bound:
    """A problem that was extracted, built and submitted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = workspace_of(root)
        self.file = root / "data" / "problems" / "tiny.yml"

    def make(self) -> None:
        self.file.parent.mkdir(parents=True)
        texts = [make_text(seed, 110 + 10 * seed) for seed in range(4)]
        (self.root / "data" / "corpus.json").write_text(json.dumps(texts))
        for seed, name in enumerate("abcd"):
            make_checkpoint(self.root / "checkpoints" / name, seed=seed)
        (self.root / "results").mkdir()
        scores = {"tiny/a": 0.1, "tiny/b": 0.5, "tiny/c": 0.3, "tiny/d": 0.7}
        (self.root / "results" / "target.json").write_text(json.dumps(scores))
        self.file.write_text(yaml.safe_dump(PROBLEM))
        shutil.copytree(
            PROJECT, self.root / "dbt_project", ignore=shutil.ignore_patterns("target", "logs")
        )
        (self.root / "plugins").symlink_to(PROJECT.parent / "plugins")
        (self.root / "warehouse").mkdir()
        self.ok("extract", "--device", "cpu")
        self.build()
        self.ok("submit", "--metric", "perplexity/bits_per_byte", "--out", str(self.root / "out"),
                "--resamples", "100")  # fmt: skip

    def build(self) -> None:
        store = Warehouse(self.workspace.data, self.workspace.database, self.root / "dbt_project")
        store.run("--target-path", str(self.root / "dbt_project" / "target"))

    def run(self, command: str, *arguments: str) -> Any:
        return CliRunner().invoke(cli, [command, "--problem", "tiny", *arguments])

    def ok(self, command: str, *arguments: str) -> str:
        result = self.run(command, *arguments)
        assert result.exit_code == 0, (result.output, result.exception)
        return str(result.stdout)

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        raw = yaml.safe_load(self.file.read_text())
        change(raw)
        self.file.write_text(yaml.safe_dump(raw))

    def status(self) -> tuple[int, int]:
        """Units done and outdated."""
        rows = json.loads(self.ok("status", "--json"))
        return sum(row["done"] for row in rows), sum(row["outdated"] for row in rows)

    def planned(self) -> int:
        """Units that a dry run counts as done."""
        problem = load_problem("tiny", self.workspace)
        plan = make_plan(select(problem, self.workspace, device="cpu", dtype="auto"))
        return sum(model.done for model in plan.models)

    def changed(self) -> list[str]:
        return read_states(self.workspace, "tiny", ("fct_tokens", "metric_values")).changed

    def outdated(self) -> bool:
        """What `correlate` states."""
        found = json.loads(self.ok("correlate", "--json", "--resamples", "100"))
        return bool(found["outdated"])

    def submitted(self) -> int:
        return int(
            self.run("submit", "--metric", "perplexity/bits_per_byte", "--out",
                     str(self.root / "new"), "--resamples", "100").exit_code
        )  # fmt: skip

    def reproduced(self) -> int:
        result = CliRunner().invoke(cli, ["reproduce", str(self.root / "out")])
        return int(result.exit_code)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bound, Path]]:
    """The problem, and a copy of it."""
    root = tmp_path_factory.mktemp("bound")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("TOKENMART_HOME", str(root))
        bound = Bound(root)
        bound.make()
        copy = tmp_path_factory.mktemp("copy")
        shutil.copytree(root, copy, dirs_exist_ok=True, symlinks=True)
        yield bound, copy


@pytest.fixture
def bound(made: tuple[Bound, Path], monkeypatch: pytest.MonkeyPatch) -> Bound:
    """The problem as it was made."""
    found, copy = made
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOKENMART_HOME", str(found.root))
    shutil.rmtree(found.root)
    shutil.copytree(copy, found.root, symlinks=True)
    return found


def texts(change: Callable[[list[str]], object]) -> Callable[[Bound], None]:
    def edit(bound: Bound) -> None:
        path = bound.root / "data" / "corpus.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))
        ensure_documents(load_problem("tiny", bound.workspace), bound.workspace, force=True)

    return edit


def problem(change: Callable[[dict[str, Any]], object]) -> Callable[[Bound], None]:
    return lambda bound: bound.edit(change)


def sql(path: str, old: str, new: str) -> Callable[[Bound], None]:
    def edit(bound: Bound) -> None:
        file = bound.root / "dbt_project" / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return edit


def other_weights(bound: Bound) -> None:
    shutil.rmtree(bound.root / "checkpoints" / "b")
    make_checkpoint(bound.root / "checkpoints" / "b", seed=9)


def write_again(bound: Bound) -> None:
    """The same units in a new file."""
    path = published_path(bound.workspace, "tiny", "tiny--a", "full")
    write_units(path, read_units(path), [read_rows(path)])


def without_a_file(bound: Bound) -> None:
    published_path(bound.workspace, "tiny", "tiny--a", "full").unlink()


def set_model(number: int, **keys: Any) -> Callable[[Bound], None]:
    return problem(lambda raw: raw["models"][number].update(keys))


# edit: parts of the state that change, units done and outdated. There are 80 units: 4 models, 5
# conditions, 4 documents
EDITS: dict[str, tuple[Callable[[Bound], object], list[str], tuple[int, int]]] = {
    "nothing": (lambda bound: None, [], (80, 0)),
    "the title": (problem(lambda raw: raw.update(title="other")), [], (80, 0)),
    "the same units written again": (write_again, [], (80, 0)),
    "a text, the last document's foreign one":
        # the fourth is foreign of the third; the third is of the fourth, and of the second
        (texts(lambda found: found.__setitem__(3, make_text(99, 140))),
         ["texts", "units"], (56, 24)),
    "a text less": (texts(lambda found: found.pop()), ["texts", "units"], (56, 4)),
    "parameters of a probe":
        (problem(lambda raw: raw["probes"][1].update(stride=12)),
         ["problem file", "units"], (64, 16)),
    "a probe less": (problem(lambda raw: raw["probes"].pop(1)), ["problem file", "units"], (64, 0)),
    "a pair of conditions":
        (problem(lambda raw: raw.update(compare=[["far_with", "far_foreign"]])),
         ["problem file"], (80, 0)),
    "a model less": (problem(lambda raw: raw["models"].pop(1)),
                     ["problem file", "units"], (60, 0)),
    "a model on request": (set_model(1, on_request=True), ["problem file"], (80, 0)),
    "other weights in one place": (other_weights, ["units"], (60, 20)),
    "BOS": (set_model(1, bos="never"), ["units"], (60, 20)),
    "an intervention":
        (set_model(1, interventions=[{"kind": "quantize", "bits": 4}]), ["units"], (60, 20)),
    "a file of units less": (without_a_file, ["units"], (76, 0)),
    "a table of tokens":
        (sql("models/tokens/fct_tokens.sql", "as nll", "* 2 as nll"),
         ["models/tokens/fct_tokens.sql"], (80, 0)),
    "a metric":
        (sql("models/metrics/perplexity.sql", "variants", " variants"),
         ["models/metrics/perplexity.sql"], (80, 0)),
    "an ephemeral model":
        (sql("models/staging/stg_coverage.sql", "with units", "with  units"),
         ["models/staging/stg_coverage.sql"], (80, 0)),
    "a macro":
        (sql("macros/probe_tokens.sql", "select", "select  "), ["macros and views"], (80, 0)),
}  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("edit", EDITS)
def test_no_number_of_an_older_state_passes_as_one_of_the_newer(bound, edit):
    change, parts, units = EDITS[edit]
    change(bound)
    assert bound.status() == units
    assert bound.changed() == parts
    assert bound.outdated() == bool(parts)
    # a model that is not ranked has no score
    assert (bound.submitted() == 0) == (not parts)
    assert (bound.reproduced() == 0) == (not parts)
    if edit not in ("a model less", "a model on request", "a text less"):
        assert bound.planned() == units[0]


@pytest.mark.timeout(900)
def test_a_changed_target_is_refused(bound):
    path = bound.root / "results" / "target.json"
    path.write_text(path.read_text().replace("0.1", "0.2"))
    assert bound.run("correlate").exit_code == bound.submitted() == 3
    assert bound.changed() == []


@pytest.mark.timeout(900)
def test_a_model_that_is_not_ranked_changes_no_others_number(bound):
    """It reads 40 tokens: what others are compared on does not end there."""

    def values(where: str) -> list[tuple[Any, ...]]:
        store = Warehouse(bound.workspace.data, bound.workspace.database)
        return store.rows(
            "select metric, variant, model_id, value from metric_values where model_id != "
            f"'tiny--e' and value is not null and {where} order by all"
        )

    before = values("true")
    make_checkpoint(bound.root / "checkpoints" / "e", seed=7)
    short = {**PROBLEM["models"][0], "full_id": "tiny/e", "on_request": True,
             "source": {"kind": "local", "path": "checkpoints/e"}}  # fmt: skip
    bound.edit(lambda raw: raw["models"].append(short))
    bound.ok("extract", "--device", "cpu", "--model", "tiny/e", "--max-tokens", "40")
    bound.build()
    after = values("true")
    assert [row[:3] for row in after] == [row[:3] for row in before]
    assert [row[3] for row in after] == pytest.approx([row[3] for row in before], rel=1e-9)
    bound.edit(lambda raw: raw["models"].pop())
    bound.build()
    assert [row[3] for row in values("true")] == pytest.approx([r[3] for r in before], rel=1e-9)
