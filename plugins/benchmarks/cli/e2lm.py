"""Evaluate benchmarks by the signal of their scores early in training."""

from __future__ import annotations

from pathlib import Path

import click

from plugins.benchmarks.e2lm.new_task import new
from plugins.benchmarks.e2lm.outputs import WEIGHTS, as_text, say, workspace_for, write_out
from plugins.benchmarks.items.curate_cli import curate
from warehouse.options import FILE, FORCE_OTHER, JSON, WIDE
from warehouse.terminal import counted, file_size


@click.group()
def e2lm() -> None:
    """Evaluate benchmarks by the signal of their scores early in training."""


e2lm.add_command(new)
e2lm.add_command(curate)


@e2lm.command(short_help="Score benchmarks as the E2LM competition does.")
@click.option(
    "--scores",
    required=True,
    type=FILE,
    help="Table with the columns model, tokens_bt, benchmark and score, direction (lower) for "
    "losses, and size and arch for CS.",
)
@click.option("--metric", help="Use only the scores of this metric; default: the only one.")
@click.option("--model", help="Show only this model; the statistics use all models.")
@WEIGHTS
@click.option("--explain", is_flag=True, help="Print every row, and the reasons of all statistics.")
@JSON
def score(
    scores: Path,
    metric: str | None,
    model: str | None,
    weights: tuple[float, float, float],
    explain: bool,
    as_json: bool,
) -> None:
    """Score benchmarks as the E2LM competition does, from a plain table.

    Signal quality (SQ), monotonicity and autocorrelation are the competition's own formulas, on its
    window of early checkpoints. RC is inferred from a figure it published, and CS is our own
    formula. RC needs two runs with later checkpoints; CS needs runs with science and with web in a
    column recipe. The JSON has all statistics: {model: {benchmark: {statistic: value}}}, null with
    a reason code where a statistic is undefined.

    \b
    tokenmart e2lm score --scores scores.csv --json
    tokenmart e2lm score --scores scores.csv --metric acc --model dense-1b-arch1 --weights 1 0 0
    """
    from plugins.benchmarks.e2lm.score import score_table
    from plugins.benchmarks.e2lm.score_view import print_scores
    from warehouse.paths import find_workspace

    signals = score_table(scores, find_workspace(), model, weights, metric)
    say(signals.notes)
    if as_json:
        click.echo(as_text(signals.entries))
    else:
        print_scores(signals, explain)


@e2lm.command(short_help="Convert result files of the harness to a table.")
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option(
    "--out",
    type=FILE,
    default="scores.csv",
    show_default=True,
    help="Write the table to this file.",
)
@click.option(
    "--metric", help="Write only the scores of this metric, such as acc; default: of all metrics."
)
@FORCE_OTHER
def collect(
    results: tuple[Path, ...],
    out: Path,
    metric: str | None,
    force: bool,
) -> None:
    """Convert result files of lm-evaluation-harness to a table.

    RESULTS are files or folders with results_….json, one per checkpoint. A problem of kind table
    reads the table; `tokenmart e2lm score` also needs the tokens of every checkpoint.

    Which model, step, tokens and parameters each checkpoint has stands in a second table, next to
    --out (scores.names.csv): correct it and run the same command again.

    \b
    tokenmart e2lm collect results --out scores.csv
    tokenmart e2lm collect results --metric acc --out acc.csv
    """
    from plugins.benchmarks.scores.checkpoints import checkpoints
    from plugins.benchmarks.scores.harness_results import FIELDS, read_results, table_rows
    from plugins.benchmarks.scores.plain_rows import as_csv

    workspace_for(out, force, b"model,step,")
    scores, notes = read_results(results, metric)
    names = out.with_suffix(".names.csv")
    at = checkpoints(names, {score.name: score.parameters for score in scores})
    rows = table_rows(scores, at)
    say(notes)
    if stepless := sum(at[n].step is at[n].tokens is None for n in {s.name for s in scores}):
        say([f"{counted(stepless, 'checkpoint')} without step and tokens: write them in {names}"])
    models = {row["model"] for row in rows}
    size = f"{counted(len(rows), 'score')} of {counted(len(models), 'model')}"
    write_out(out, as_csv(FIELDS, rows), f" ({size}); checkpoints: {names}")


@e2lm.command(short_help="Write an HTML page for a table of scores.")
@click.option("--problem", help="Name of a problem of kind table, or path of its .yml file.")
@click.option(
    "--scores",
    type=FILE,
    help="Table in the format of `tokenmart e2lm score`, instead of --problem.",
)
@click.option("--metric", help="Scoring method shown; default: the target's.")
@click.option(
    "--out",
    type=FILE,
    default="signal.html",
    show_default=True,
    help="Write the page to this file.",
)
@FORCE_OTHER
def report(
    problem: str | None, scores: Path | None, metric: str | None, out: Path, force: bool
) -> None:
    """Write an HTML page for a table of scores.

    The page ranks benchmarks by decision accuracy and shows score curves with error bands, signal
    statistics, and decision accuracy by stage. One HTML file that needs no network.

    \b
    tokenmart e2lm report --problem ladder --out ladder.html
    tokenmart e2lm report --scores scores.csv --out signal.html
    """
    from analysis.report.cli import OWN_PAGE
    from plugins.benchmarks.page.signal_page import gather_page, signal_page
    from warehouse.progress import progress_bar

    if (problem is None) == (scores is None):
        raise click.UsageError("give either --problem or --scores")
    workspace = workspace_for(out, force, OWN_PAGE)
    data = gather_page(problem, scores, metric, workspace)
    say(data.notes)
    with progress_bar(len(data.curves) + 1, "figures") as progress:
        page = signal_page(data, progress)
    write_out(out, page, f" ({file_size(len(page.encode()))})")


@e2lm.command("scoring-methods", short_help="Compare scoring methods by decision accuracy.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    default=("ladder", "pythia", "dclm"),
    show_default=True,
    help="Name of a problem of kind table, or path of its .yml file; repeatable.",
)
@WIDE
@JSON
def scoring_methods(
    problems: tuple[str, ...],
    wide: bool,
    as_json: bool,
) -> None:
    """Compare scoring methods by decision accuracy.

    Decision accuracy is the share of pairs of runs that an early score of a benchmark orders as the
    benchmark's final score by the target's scoring method does. Intervals resample runs and
    benchmarks. The held-out scoring method of a benchmark is the best one on all others.

    \b
    tokenmart e2lm scoring-methods --problem ladder
    tokenmart e2lm scoring-methods --json
    """
    from plugins.benchmarks.e2lm.scoring_methods import compare_scoring_methods
    from plugins.benchmarks.e2lm.scoring_methods_view import print_scoring_methods
    from warehouse.paths import find_workspace

    compared = [compare_scoring_methods(name, find_workspace()) for name in problems]
    if as_json:
        click.echo(as_text(compared))
    else:
        print_scoring_methods(compared, wide)


@e2lm.command(short_help="Check a task and write submission.zip.")
@click.option("--task", required=True, type=FILE, help="Folder of the task.")
@click.option("--harness", required=True, type=FILE, help="Your clone of lm-evaluation-harness.")
@click.option(
    "--out",
    type=FILE,
    default="submission.zip",
    show_default=True,
    help="Write the submission to this file.",
)
@click.option("--name", help="Name of the task, if the folder defines several.")
@click.option("--metric", help="Metric of the submission; default: the task's first.")
@click.option("--python", help="Python that runs the harness; default: this one.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Number of samples to run; the items of all samples are checked anyway.",
)
@FORCE_OTHER
def package(
    task: Path,
    harness: Path,
    out: Path,
    name: str | None,
    metric: str | None,
    python: str | None,
    limit: int | None,
    force: bool,
) -> None:
    """Check a task and write submission.zip: evaluation.patch and metadata.yaml.

    Checks in a clean clone: the patch applies, the task loads and runs, every item has a right
    answer among its choices, the metric is a number, there are 100 to 15,000 samples, no prompt
    contains its answer as a word, and the patch contains no secret. The organisers' access token
    comes from $HF_TOKEN and is written to the zip only.

    \b
    tokenmart e2lm package --task element_symbols --harness lm-evaluation-harness
    """
    import sys

    from plugins.benchmarks.e2lm.package import package as write_package

    workspace_for(out, force, b"evaluation.patch")
    made = write_package(
        task,
        harness,
        out,
        lambda step: click.echo(f"{step} …", err=True),
        name=name,
        metric=metric,
        python=python or sys.executable,
        limit=limit,
    )
    say(f"{path} is not tracked and left out of the patch" for path in made.patch.left_out)
    say(made.notes)
    if made.unchecked:
        say([f"{made.unchecked} samples have no prompt to search for their answer"])
    click.echo(
        f"written {out}: {made.task} by {made.metric}, {made.samples} samples, "
        f"patch of {len(made.patch.files)} files onto {made.patch.base[:12]}"
    )
