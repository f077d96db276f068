"""Every command that README, docs and `--help` show is run; every option they name exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from documented import (
    ABSENT,
    PAGES,
    ROOT,
    Desk,
    commands,
    make_checkout,
    named,
    run,
    shown,
    tiny_checkpoint,
)

from tokenmart import cli

FOR_DBT = {"--project-dir", "--select", "--static", "--vars"}
"""Options of `tokenmart dbt`, which takes any."""
FOR_SLURM = {"--account", "--array", "--gpus", "--job-name", "--partition", "--time"}
"""Options of `sbatch`: tests/extract/test_sbatch.py."""
SHOWN = shown()
EXAMPLES = sorted({*SHOWN, *named()})

# Commands that aren't run as written: what is run instead (None: nothing), and why.
INSTEAD: dict[str, tuple[str | None, str]] = {
    "data fetch --problem minilong": (
        "data fetch --problem minilong --dry-run",
        "downloads 300 MB",
    ),
    **{
        f"data fetch --problem no4k --only {kind}": (
            f"data fetch --problem no4k --only {kind} --dry-run",
            "needs the network",
        )
        for kind in ("documents", "target")
    },
    "preregister --problem no4k --metric METRIC/VARIANT": (
        "preregister --problem no4k --metric context_gain/clipped_5@window_4096 --yes",
        "the reader's own metric stands there, and the reader answers the question",
    ),
    **dict.fromkeys(
        (
            "correlate --problem no4k",
            "select --problem no4k",
            "submit --problem no4k --metric METRIC/VARIANT --out results/mine",
        ),
        (None, "needs all models and the locked target; tests/rehearsal runs them"),
    ),
    "data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct": (
        "data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct --dry-run",
        "needs a model hub",
    ),
    "extract --problem demo": (
        "extract --problem demo --dry-run",
        "takes minutes with real models; `extract --problem mine.yml` is run with a small one",
    ),
    "extract --problem no4k --model Qwen/Qwen2-7B-Instruct --device cuda:1": (
        "extract --problem no4k --model Qwen/Qwen2-7B-Instruct --device cuda:1 --dry-run",
        "needs two GPUs",
    ),
    "extract --problem no4k --on ray --address head:6379": (
        None,
        "needs a Ray cluster and GPUs; plugins/cluster/tests/test_cluster.py starts three nodes",
    ),
    "correlate --problem minilong --json --top 20": (
        "correlate --problem minilong --json --top 20 --metric longppl",
        "takes seconds for all metrics",
    ),
    "recall --problem minilong --contexts 3": (
        None,
        "takes minutes with real models; tests/extract/test_recall.py runs it with small ones",
    ),
    "extract --problem minilong --documents 10": (
        "extract --problem minilong --documents 10 --dry-run",
        "takes hours; tests/extract/test_run.py runs it with small models",
    ),
    "dbt run": (None, "the checkout here is built by it, and `data gc` comes before"),
    "dbt run --select tag:benchmarks": (None, "the checkout here is built with all plugins"),
    "dbt run --select tag:benchmarks tag:rankings": (None, "the same"),
    "dbt run --select +perplexity+": (None, "the checkout here is built by `dbt run`"),
    "dbt build": (None, "the checkout here is built by `dbt run`, without the library's own tests"),
    "dbt run --vars grids: [longppl]": (None, "tests/dbt_project builds every grid"),
    "dbt run --vars grids: true": (None, "tests/dbt_project builds every grid"),
    "dbt run --vars grids: [longppl, context_gain]": (None, "tests/dbt_project builds every grid"),
    **dict.fromkeys(
        (
            "e2lm curate --items item_scores.parquet --compare",
            "e2lm curate --items item_scores.parquet --out chosen.json",
        ),
        (
            None,
            "needs many checkpoints' item scores: plugins/benchmarks/tests/e2lm/test_curation.py",
        ),
    ),
    "metrics show late_nll --values": (
        "metrics show perplexity --values",
        "the metric that the page writes: tests/dbt_project/test_write_a_metric.py",
    ),
    "data gc --yes": ("data gc", "would remove what later commands read"),
    "e2lm curate --items item_scores.parquet --task-items element_symbols/items.jsonl "
    "--chosen-items shorter/items.jsonl": (
        None,
        "needs scores of items; plugins/benchmarks/tests/e2lm/test_curation.py",
    ),
    **dict.fromkeys(
        (
            "e2lm collect results --metric acc --out acc.csv",
            "e2lm collect results --out my/collected.csv",
            "e2lm collect results --out scores.csv",
        ),
        (None, "files of other programs: plugins/benchmarks/tests/test_harness_results.py"),
    ),
    "e2lm score --scores my_scores.csv": (
        None,
        "a collected table; plugins/benchmarks/tests/e2lm/test_score.py",
    ),
    **dict.fromkeys(
        (
            "correlate --problem my/mine.yml",
            "data fetch --problem my/mine.yml",
            "e2lm scoring-methods --problem my/mine.yml",
        ),
        (None, "the reader's own table; plugins/benchmarks/tests/test_table_problem.py"),
    ),
    "e2lm package --task element_symbols --harness lm-evaluation-harness": (
        None,
        "needs a checkout of the harness; plugins/benchmarks/tests/e2lm/test_package.py",
    ),
    "e2lm package --task element_symbols --harness lm-evaluation-harness --out submission.zip": (
        None,
        "needs a checkout of the harness; plugins/benchmarks/tests/e2lm/test_package.py",
    ),
    "e2lm package --task element_symbols --harness lm-evaluation-harness-competition "
    "--python fork/bin/python": (None, "needs a clone of the fork"),
    "e2lm score --scores plot-data-combined-all.json --model dense-1b-arch1": (
        None,
        "the site's file: plugins/benchmarks/tests/e2lm/test_score.py",
    ),
    "e2lm report --problem ladder --out ladder.html": (None, "takes a minute of figures"),
    **dict.fromkeys(
        (
            "eval --problem minilong --tasks arc_easy,hellaswag --limit 100",
            "eval --problem minilong --tasks element_symbols --include-path element_symbols "
            "--model smollm2-135m",
            "eval --problem runs.yml --tasks element_symbols --include-path element_symbols",
            "eval --problem minilong --tasks my_task --include-path tasks",
            "eval --problem minilong --tasks my_task --include-path tasks --apply-chat-template",
            "eval --problem minilong --tasks my_task --include-path tasks --dry-run",
        ),
        (None, "needs real models, and some the network; plugins/benchmarks/tests/test_harness.py"),
    ),
    **dict.fromkeys(
        (
            "data import --problem my_models.yml --model me/alpha --format samples "
            "alpha/samples_*.jsonl",
            "data import --problem my_models.yml --model me/beta --format samples "
            "beta/samples_*.jsonl",
        ),
        (
            None,
            "files of other programs: plugins/benchmarks/tests/test_samples.py",
        ),
    ),
    **dict.fromkeys(
        (
            "extract --problem benchmarks/divergence.yml",
            "sql --name kind_gap --param problem=how_far --param condition=full "
            "--param model_a=smollm2-135m --param model_b=smollm2-135m-4-bit",
        ),
        (None, "ten minutes and real models; tests/extract/test_divergence.py"),
    ),
    "data import --problem mine.yml --model my-model --format prompt-logprobs dump.jsonl": (
        None,
        "another example has the name mine; plugins/logprobs/tests/test_prompt_logprobs.py",
    ),
    "e2lm scoring-methods --out scoring_methods.json": (
        None,
        "takes half a minute; another example runs it for one problem",
    ),
    **dict.fromkeys(
        (
            "merge bundle --problem minimerge --merge task-arithmetic --out winner",
            "merge check --problem minimerge",
            "merge eval --problem minimerge --round open --tasks boolq",
            "merge eval --problem minimerge --round final --include-path final "
            "--tasks final_reading,final_maths,final_code",
            "merge eval --problem minimerge --round final --tasks final_code --include-path final",
            "merge reproduce winner --include-path real_tasks",
            "merge run --problem minimerge",
            "merge run --problem minimerge --dry-run",
            "merge run --problem minimerge --merge ties",
            "merge submission --kit data/test.csv --check submission.csv",
            "merge submission --kit data/test.csv --problem minimerge --merge ties",
            "merge tasks --out kit_tasks --kit data/validation/cosmos_qa.csv",
            "merge tasks --out real_tasks --real boolq --real mawps --count 300",
            "merge eval --problem minimerge --round open --tasks real_boolq,real_mawps "
            "--include-path real_tasks",
        ),
        (
            None,
            "needs real models, or minutes; plugins/merging/tests",
        ),
    ),
    **dict.fromkeys(
        (
            "rank report --problem minimerge --out standings.html",
            "rank show --problem challenge",
            "rank show --problem challenge --out standings.json",
            "rank show --problem minimerge",
            "rank show --problem minimerge --out standings.json",
        ),
        (None, "needs another build; plugins/merging/tests/competition/test_rankings.py"),
    ),
    "report --problem minilong --figures figures/": (
        "report --problem minilong --figures figures/ --out report.html",
        "takes seconds; one page for both examples",
    ),
    "report --problem minilong --out report.html": (None, "written with the figures above"),
    "data check --problem minilong --repair": (
        "data check --problem minilong",
        "would move the made-up files away",
    ),
}
FEWER = {
    "correlate": ["--resamples", "100", "--top", "3"],
    "select": ["--splits", "20"],
    "submit": ["--resamples", "100"],
    "verify": ["--resamples", "100"],
}
"""Added to what draws at random, in place of what is shown: only how long it takes changes."""
BUILD = ["dbt", "run", "--quiet", "--select", "fqn:*"]
"""The core and the plugins' models."""


def words_of(line: str) -> list[str]:
    words = shlex.split(line, comments=True)[1:]
    return words[: words.index(">")] if ">" in words else words


def test_examples_are_found() -> None:
    assert len(EXAMPLES) > 60
    assert len(SHOWN) > 60
    named_commands = {line.split()[1] for _, line in SHOWN}
    assert set(cli.list_commands(click.Context(cli))) - named_commands == set(), (
        "a command without an example"
    )
    here = {line for line in INSTEAD if line.split()[0] not in ABSENT}
    assert here <= {" ".join(words_of(line)) for _, line in SHOWN}, "no longer shown"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A checkout with made-up token statistics of `minilong` and `no4k`, built by dbt."""
    folder = tmp_path_factory.mktemp("documented")
    workspace = make_checkout(folder / "checkout")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("TOKENMART_HOME", str(workspace.root))
        run(["data", "fetch", "--problem", "ladder"])
        run(BUILD)
        yield Desk(workspace, folder, tiny_checkpoint(folder / "model"))


@pytest.mark.slow
@pytest.mark.parametrize("line", sorted({line for _, line in SHOWN}), ids=lambda line: line[:60])
def test_a_command_that_is_shown_runs(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = words_of(line)
    instead, _ = INSTEAD.get(" ".join(words), (" ".join(words), ""))
    if instead is None:
        return
    if " ".join(words) in INSTEAD:
        words = instead.split()
    monkeypatch.chdir(tmp_path)
    desk.folder = tmp_path
    try:
        desk.lay_out(words)
        files = [word for each in words for word in glob_of(each, tmp_path)]
        said = run(files + FEWER.get(words[0], []))
    finally:
        desk.clear()
    assert "Traceback" not in said
    for option in ("--out", "--figures"):
        if option in words:
            assert (tmp_path / words[words.index(option) + 1]).exists()


def glob_of(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word."""
    return sorted(path.name for path in folder.glob(word)) if "*.jsonl" in word else [word]


PYTHON = [
    (page.name, code)
    for page in PAGES
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    if not code.startswith("# ")
]
"""Page and code of each Python example; a plugin's begins with its path and is run elsewhere."""


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), PYTHON, ids=lambda value: value[:20])
def test_python_on_a_page_runs_in_the_checkout(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, page: str, code: str
) -> None:
    monkeypatch.chdir(desk.workspace.root)
    exec(code, {})


@pytest.mark.parametrize(("where", "line"), EXAMPLES, ids=lambda value: value[:60])
def test_an_example_is_a_command_with_options_that_exist(where: str, line: str) -> None:
    words = words_of(line)
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group):
        if not words:
            return  # a group by name
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{where}: no command {name!r} in: {line}"
        command = found
    try:
        command.make_context(command.name, words)
    except (click.MissingParameter, click.BadOptionUsage):
        # in running text a command may be written without what it, or its last option, needs
        assert (where, line) not in SHOWN, line
    except click.UsageError as error:
        # the problem extracted last, of which this checkout has none
        assert error.message.startswith("--problem is missing"), line


@pytest.mark.skipif(bool(ABSENT), reason="pages name options of plugins that were removed")
def test_every_option_that_a_page_names_exists_and_is_tested() -> None:
    known = {option for _, command in commands() for each in command.params for option in each.opts}
    known |= {"--help", *FOR_DBT}
    for script in [*ROOT.glob("scripts/*.py"), *ROOT.glob("benchmarks/*.py")]:
        known |= set(re.findall(r"[\"'](--[a-z-]+)[\"']", script.read_text("utf-8")))
    known |= {option for text in known for option in text.split("/")}
    tests = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/*.py"))
    tests += "".join(path.read_text("utf-8") for path in ROOT.glob("plugins/*/tests/**/*.py"))
    tests += "".join(line for _, line in SHOWN)
    for page in PAGES:
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text("utf-8"))) - FOR_SLURM
        assert options - known == set(), page
        assert {option for option in options if option not in tests} == set(), page


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value)[:40])
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{name} {option.opts[0]}"
            assert option.help.rstrip(")").endswith("."), f"{name} {option.opts[0]}: {option.help}"


def test_other_programs_on_pages_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for target in re.findall(r"^\$ make ([a-z]+)", text, re.MULTILINE):
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()
        for script in re.findall(r"python ((?:scripts|benchmarks)/\S+\.py)", text):
            assert (ROOT / script).is_file(), script
