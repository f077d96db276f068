"""Commands as README, docs and `--help` show them, and a checkout in which they can be run."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner
from dbt_harness import PARSED, PROJECT
from made_up_warehouse import Retrieval, Shape, Window, write_warehouse
from tiny_models import make_checkpoint, make_text

from analysis.submission.verifier import MODELS, TARGET_PATH
from tokenmart import cli
from warehouse.paths import Workspace, workspace_of
from warehouse.problem.spec import load_problem

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])
OF_PLUGINS = {
    "e2lm": "benchmarks",
    "eval": "benchmarks",
    "merge": "merging",
    "rank": "merging",
}
"""Command → the plugin that ships with it."""
ABSENT = {name for name, plugin in OF_PLUGINS.items() if not (ROOT / "plugins" / plugin).is_dir()}
"""Commands that pages show and that a removed plugin had."""
Commands = list[tuple[str, str]]
"""Where a command is shown, and its line."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand, by its words."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for below, each in command.commands.items():
                yield f"{name} {below}", each


def shown() -> Commands:
    """The commands in blocks of the pages and in the examples of `--help`: complete ones."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"```(?:console|bash|sh)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
        for line in _whole_lines([line.removeprefix("$ ") for line in lines]):
            found += [(page.name, each) for each in line.split(" && ")]
    for name, command in commands():
        text = (command.help or "").replace("\\\n", " ")
        for line in _whole_lines(text.splitlines()):
            found += [(f"{name} --help", each) for each in line.split(" && ")]
    return _ours(found)


def named() -> Commands:
    """The commands in running text, which may be incomplete."""
    found = []
    for page in PAGES:
        for code in re.findall(r"`(tokenmart [^`]+)`", page.read_text("utf-8")):
            found += [(page.name, each) for each in " ".join(code.split()).split(" && ")]
    return _ours(found)


def _ours(found: Commands) -> Commands:
    ours = {(where, line) for where, line in found if line.startswith("tokenmart ")}
    return sorted((where, line) for where, line in ours if line.split()[1] not in ABSENT)


def _whole_lines(lines: list[str]) -> Iterator[str]:
    """Lines without indentation, those with an open quotation mark joined with what follows."""
    waiting = ""
    for line in lines:
        waiting = f"{waiting} {line.strip()}".strip()
        if not waiting.startswith("tokenmart ") or waiting.count('"') % 2 == 0:
            yield waiting
            waiting = ""


def make_checkout(root: Path) -> Workspace:
    """A checkout with `demo`, `minilong` and `no4k` as if extracted: made-up numbers, not built."""
    shutil.copytree(PROJECT, root / "dbt_project", ignore=shutil.ignore_patterns("target", "logs"))
    (root / "plugins").symlink_to(ROOT / "plugins")
    for folder in ("problems", "published"):
        shutil.copytree(ROOT / "data" / folder, root / "data" / folder)
    recall = Path("studies") / "minilong" / "recall.json"
    (root / recall).parent.mkdir(parents=True)
    shutil.copy(ROOT / recall, root / recall)
    workspace = workspace_of(root)
    workspace.database.parent.mkdir()
    if PARSED.exists():
        (workspace.dbt_project / "target").mkdir()
        shutil.copy(PARSED, workspace.dbt_project / "target")
    for name, tokens, window in (("no4k", 4500, 4096), ("minilong", 900, 512), ("demo", 460, 256)):
        models = load_problem(name, workspace).models
        ids = tuple(model.model_id for model in models)
        shape = Shape(
            name,
            models=len(ids),
            model_ids=ids,
            documents=2,
            tokens=tokens,
            windows=(Window(window, 128),),
            retrieval=Retrieval(4, 16, 8, 64),
            downstream_items=12 if name == "minilong" else 0,
        )
        write_warehouse(workspace.data, shape)
    return workspace


class Desk:
    """A folder with the files that a command line names, as a reader would have them."""

    def __init__(self, workspace: Workspace, folder: Path, checkpoint: Path) -> None:
        self.workspace = workspace
        self.folder = folder
        self.checkpoint = checkpoint

    def lay_out(self, words: list[str]) -> None:
        """Make every file among the words that is an input."""
        makers: dict[str, Callable[[Path], object]] = {
            "texts": self._texts,
            "texts.jsonl": lambda path: path.write_text(json.dumps({"text": make_text(0)}) + "\n"),
            "checkpoints/my-model": self._checkpoint,
            "models/my-checkpoint": self._checkpoint,
            "mine.yml": self._imported if "import" in words else self._mine,
            "numbers.csv": self._numbers,
            "secret.txt": lambda path: path.write_text("correct horse battery staple"),
            "results.csv": lambda path: path.write_text(
                "entry,task,value\nlinear,qa,0.5\nsmollm2,qa,0.4\nlinear,maths,\nsmollm2,maths,1\n"
            ),
            "scores.csv": self._items if "import" in words else self._series,
            "items.csv": self._items,
            "samples_*.jsonl": self._samples,
            "*.jsonl": self._samples,
            "submission.json": self._submission,
            "question.sql": lambda path: path.write_text("from models"),
            "results/mine": self._bundle if "reproduce" in words else lambda _: None,
        }
        for word in words:
            if word in makers:
                path = self.folder / word
                path.parent.mkdir(parents=True, exist_ok=True)
                makers[word](path)
        if "import" in words and "mine" in words:
            self._imported(self.workspace.problems / "mine.yml", "org/model")
        if words[0] in ("verify", "submit", "reproduce"):
            self._labels()
        if words[0] == "preregister":  # shown twice, but nothing is registered twice
            shutil.rmtree(self.workspace.preregistered, ignore_errors=True)

    def clear(self) -> None:
        """Take out of the checkout what belongs to this reader alone."""
        (self.workspace.problems / "mine.yml").unlink(missing_ok=True)
        (self.workspace.root / TARGET_PATH).unlink(missing_ok=True)
        for name in ("mine", "challenge"):
            for folder in self.workspace.data.glob(f"*/problem={name}"):
                shutil.rmtree(folder)

    def _labels(self) -> None:
        target = self.workspace.root / TARGET_PATH
        target.parent.mkdir(parents=True, exist_ok=True)
        drawn = zip(MODELS, np.random.default_rng(7).normal(size=len(MODELS)), strict=True)
        target.write_text(json.dumps({model: {"overall": float(x)} for model, x in drawn}))

    def _texts(self, path: Path) -> None:
        path.mkdir()
        for number in range(5):
            (path / f"{number}.txt").write_text(make_text(number, words=300))

    def _checkpoint(self, path: Path) -> None:
        shutil.copytree(self.checkpoint, path)

    def _mine(self, path: Path) -> None:
        self._texts(path.with_name("texts"))
        shutil.copytree(self.checkpoint, path.with_name("my-model"))
        run(["data", "new", "mine", "--texts", "texts", "--model", "my-model"])

    def _imported(self, path: Path, model: str = "my-model") -> None:
        path.write_text(
            "name: mine\ntitle: t\ndocuments: {kind: folder, path: texts}\n"
            f"models: [{{full_id: {model}, family: f, source: {{kind: hub}}}}]\n"
            "probes: [{kind: full}]\ntarget: {kind: imported}\n"
        )

    def _numbers(self, path: Path) -> None:
        models = load_problem("demo", self.workspace).models
        rows = [f"{model.model_id},{number}" for number, model in enumerate(models)]
        path.write_text("\n".join(["model_id,value", *rows]) + "\n")

    def _items(self, path: Path) -> None:
        path.write_text("task,item,score\nqa,0,0.5\nqa,1,1\n")

    def _series(self, path: Path) -> None:
        early = [4.194304, 10.110550016, *(4.665546069333 + 16.777216 * k for k in range(1, 14))]
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            columns = (
                "model",
                "size",
                "arch",
                "tokens_bt",
                "benchmark",
                "metric",
                "score",
                "recipe",
            )
            rows.writerow(columns)
            for model, recipe in (("mine-science", "science"), ("dense-1b-arch1", "web")):
                for place, tokens in enumerate(early):
                    score = 0.3 + 0.01 * place
                    rows.writerow([model, "1b", "arch1", tokens, "qa", "acc", score, recipe])

    def _samples(self, path: Path) -> None:
        lines = [
            {
                "doc_id": number,
                "doc": {"id": f"q{number}", "question": "Which?", "answerKey": "B"},
                "target": "1",
                "arguments": {"gen_args_0": {"arg_0": "Question: Which?", "arg_1": " iron"}},
                "resps": [[["-1.25", str(bool(number))]]],
                "filtered_resps": [["-1.25", str(bool(number))]],
                "filter": "none",
                "metrics": ["acc"],
                "doc_hash": "7f83",
                "prompt_hash": "9a27",
                "target_hash": "6b86",
                "acc": float(number),
            }
            for number in range(2)
        ]
        file = path.with_name("samples_arc_easy_2025-03-04T10-11-12.123456.jsonl")
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _submission(self, path: Path) -> None:
        scores = {model: float(number) for number, model in enumerate(MODELS)}
        path.write_text(json.dumps(scores))

    def _bundle(self, path: Path) -> None:
        self._labels()
        words = [
            "--problem",
            "minilong",
            "--metric",
            "perplexity/bits_per_byte",
            "--resamples",
            "100",
        ]
        run(["submit", *words, "--negate", "--out", str(path.relative_to(self.folder))])


def run(words: list[str], code: int = 0) -> str:
    """Run a command in this process, in the present folder; its output."""
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, f"{words}: {done.output} {done.exception!r}"
    return done.output


def tiny_checkpoint(folder: Path) -> Path:
    """A random model as `save_pretrained` writes it."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return make_checkpoint(folder)
