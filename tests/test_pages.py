"""What pages say of the program: commands, options, queries, links, Python; and the built site."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from dbt_harness import PARSED, PROJECT
from made_up_warehouse import Retrieval, Shape, Window, write_warehouse

from tokenmart import FUNCTIONS, cli
from warehouse.errors import TokenmartError
from warehouse.paths import workspace_of
from warehouse.problem.spec import load_problem

ROOT = Path(__file__).parents[1]
AT_THE_TOP = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES = sorted([*AT_THE_TOP, *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])
LINKED = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    *ROOT.glob("studies/*/README.md"),
    ROOT / "benchmarks" / "RESULTS.md",
]
OF_PLUGINS = {
    "e2lm": "benchmarks",
    "eval": "benchmarks",
    "extract-on-ray": "cluster",
    "merge": "merging",
    "rank": "merging",
}
ABSENT = {name for name, plugin in OF_PLUGINS.items() if not (ROOT / "plugins" / plugin).is_dir()}
"""Commands that pages show and that a removed plugin had."""
with_plugins = pytest.mark.skipif(bool(ABSENT), reason="pages name what removed plugins had")
ELSEWHERE = {"--project-dir", "--select", "--static", "--vars", "--help"} | {
    "--account", "--array", "--gpus", "--job-name", "--partition", "--time",
    "--disable-radix-cache",
}  # fmt: skip
"""Options of dbt, which takes any, of sbatch, and of SGLang."""


def commands() -> Iterator[click.Command]:
    """Every command and subcommand."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from command.commands.values()


def examples() -> dict[str, bool]:
    """Command lines of pages and of `--help` → whether they are whole, not in running text."""
    found: dict[str, bool] = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        for code in re.findall(r"`(tokenmart [^`]+)`", text):
            found |= dict.fromkeys(" ".join(code.split()).split(" && "), False)
    blocks = [
        line.removeprefix("$ ")
        for page in PAGES
        for block in re.findall(
            r"```(?:console|bash|sh)\n(.*?)```", page.read_text("utf-8"), re.DOTALL
        )
        for line in block.replace("\\\n", " ").splitlines()
    ]
    for command in commands():
        blocks += (command.help or "").replace("\\\n", " ").splitlines()
    for line in _whole_lines(blocks):
        found |= dict.fromkeys(line.split(" && "), True)
    ours = {line: whole for line, whole in found.items() if line.startswith("tokenmart ")}
    return {line: whole for line, whole in ours.items() if line.split()[1] not in ABSENT}


def _whole_lines(lines: list[str]) -> Iterator[str]:
    """Lines without indentation, those with an open quotation mark joined with what follows."""
    waiting = ""
    for line in lines:
        waiting = f"{waiting} {line.strip()}".strip()
        if not waiting.startswith("tokenmart ") or waiting.count('"') % 2 == 0:
            yield waiting
            waiting = ""


def words_of(line: str) -> list[str]:
    words = shlex.split(line, comments=True)[1:]
    return words[: words.index(">")] if ">" in words else words


EXAMPLES = examples()


def test_every_command_has_an_example():
    shown = {line.split()[1] for line, whole in EXAMPLES.items() if whole}
    assert set(cli.list_commands(click.Context(cli))) <= shown


@pytest.mark.parametrize("line", sorted(EXAMPLES), ids=lambda value: value[10:70])
def test_an_example_is_a_command_with_options_that_exist(line):
    words, command = words_of(line), cli
    while isinstance(command, click.Group):
        if not words:
            return  # a group by name
        command = command.get_command(click.Context(cli), words.pop(0))
    assert command is not None
    try:
        command.make_context(command.name, words)
    except (click.MissingParameter, click.BadOptionUsage):
        # in running text a command may be written without what it, or its last option, needs
        assert not EXAMPLES[line]
    except (click.UsageError, TokenmartError) as error:
        # in running text, or the problem extracted last, of which this checkout has none
        assert error.message.startswith("--problem is missing")


@with_plugins
def test_every_option_that_a_page_names_exists():
    known = {option for command in commands() for each in command.params for option in each.opts}
    known |= {o for command in commands() for each in command.params for o in each.secondary_opts}
    for script in [*ROOT.glob("scripts/*.py"), *ROOT.glob("benchmarks/*.py")]:
        known |= set(re.findall(r"[\"'](--[a-z-]+)[\"']", script.read_text("utf-8")))
    for page in PAGES:
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text("utf-8")))
        assert options - known - ELSEWHERE == set(), page


def test_other_programs_on_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        text = page.read_text("utf-8")
        for target in re.findall(r"^\$ make ([a-z]+)", text, re.MULTILINE):
            assert f"\n{target}:" in makefile
        for script in re.findall(r"python ((?:scripts|benchmarks)/\S+\.py)", text):
            assert (ROOT / script).is_file(), script


@with_plugins
def test_links_on_pages_lead_to_files_and_headings_of_the_repository():
    """Pages are read in a clone, too, where the generated pages of the site don't exist."""
    dead = []
    for page in LINKED:
        found = re.findall(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"", page.read_text("utf-8"))
        for target in map("".join, found):
            path, _, heading = target.partition("#")
            file = page.parent / path if path else page
            if re.match(r"[a-z]+:", target):
                continue
            if not file.exists() or (heading and heading not in headings(file)):
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert dead == []


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in found}


def test_each_written_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"- ([\w/]+\.md)$", text, re.MULTILINE))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert written == listed - {"index.md"}, "the home page is the README"
    assert yaml.safe_load(text)["theme"]["font"] is False


READS = ("sql", "metrics", "correlate", "select", "show", "status", "doctor")
"""Commands that only read: each example of them is run."""
OTHER_DATA = re.compile(r"no4k|late_nll|kind_gap|my/mine|METRIC/|select --problem models90")
"""Examples of other problems than the checkout has, or of what a reader writes first."""
FEWER = {"correlate": ["--resamples", "100", "--top", "3"], "select": ["--splits", "20"]}
"""Added to what draws at random, in place of what is shown: only how long it takes changes."""
READING = sorted(
    line
    for line, whole in EXAMPLES.items()
    if whole and line.split()[1] in READS and not OTHER_DATA.search(line)
)
PYTHON = [
    code
    for page in PAGES
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    if not code.startswith("# ")
]
"""Each Python example; a plugin's begins with its path and is run elsewhere."""


def run(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, f"{words}: {done.output} {done.exception!r}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout with made-up token statistics of `minilong` and `demo`, built by dbt."""
    root = tmp_path_factory.mktemp("pages")
    shutil.copytree(PROJECT, root / "dbt_project", ignore=shutil.ignore_patterns("target", "logs"))
    (root / "plugins").symlink_to(ROOT / "plugins")
    for folder in ("data/problems", "data/published"):
        shutil.copytree(ROOT / folder, root / folder)
    recall = Path("studies") / "minilong" / "recall.json"
    (root / recall).parent.mkdir(parents=True)
    shutil.copy(ROOT / recall, root / recall)
    workspace = workspace_of(root)
    workspace.database.parent.mkdir()
    if PARSED.exists():
        (workspace.dbt_project / "target").mkdir()
        shutil.copy(PARSED, workspace.dbt_project / "target")
    for name, tokens, window in (("minilong", 1400, 512), ("demo", 800, 256)):  # as their files ask
        models = load_problem(name, workspace).models
        shape = Shape(
            name,
            models=len(models),
            model_ids=tuple(model.model_id for model in models),
            documents=2,
            tokens=tokens,
            windows=(Window(window, window),),
            retrieval=Retrieval(4, 16, 8, 64),
            downstream_items=12 if name == "minilong" else 0,
        )
        write_warehouse(workspace.data, shape)
    numbers = [f"{model.model_id},{n}" for n, model in enumerate(models)]
    (root / "numbers.csv").write_text("\n".join(["model_id,value", *numbers]) + "\n")
    (root / "question.sql").write_text("from models")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("TOKENMART_HOME", str(root))
        patch.chdir(root)
        run(["data", "fetch", "--problem", "ladder"])
        run(["dbt", "run", "--quiet", "--select", "fqn:*"])
        yield root


@pytest.mark.slow
@pytest.mark.parametrize("line", READING, ids=lambda line: line[10:70])
def test_an_example_that_reads_runs(checkout, line):
    words = words_of(line)
    run([*words, *FEWER.get(words[0], [])])
    if "--out" in words:
        assert (checkout / words[words.index("--out") + 1]).exists()


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_on_a_page_runs(checkout, code):
    exec(code, {})


@with_plugins
@pytest.mark.slow
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(tmp_path):
    """mkdocs stops at a link or an anchor that leads nowhere, and at a page without an entry."""
    pytest.importorskip("mkdocs")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    outside = r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*href="https?://'
    assert [page.name for page, text in pages.items() if re.search(outside, text)] == []
    reference = tmp_path / "reference"
    metrics, python = (pages[reference / f"{name}.html"] for name in ("metrics", "python"))
    for metric in ROOT.glob("dbt_project/models/metrics/*.sql"):
        assert f'id="{metric.stem}"' in metrics
    assert all(f"tokenmart.{name}" in python for name in FUNCTIONS)
