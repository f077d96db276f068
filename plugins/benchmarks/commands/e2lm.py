"""Judge benchmarks by their scores over training."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.options import RESAMPLES, SEED
from plugins.benchmarks.e2lm.curate_cli import curate
from plugins.benchmarks.e2lm.new_cli import new
from plugins.benchmarks.e2lm.outputs import as_text, say, workspace_for, write_out
from plugins.benchmarks.e2lm.score_weights import WEIGHTS
from warehouse.options import FILE, FORCE, JSON

OUT_JSON = click.option("--out", type=FILE, help="Where to write the JSON, instead of printing it.")


SHOWN_REASONS = 5


@click.group()
def e2lm() -> None:
    """Judge benchmarks by the signal that their scores give early in training."""


e2lm.add_command(curate)
e2lm.add_command(new)


@e2lm.command(short_help="Score benchmarks as the E2LM competition does.")
@click.option(
    "--scores",
    required=True,
    type=FILE,
    help="Table with the columns model, size, arch, tokens_bt, benchmark and score.",
)
@click.option("--model", help="Show this model only; all are compared with each other.")
@WEIGHTS
@click.option(
    "--last-checkpoints",
    default=10,
    show_default=True,
    type=click.IntRange(2),
    help="Measure the noise on so many checkpoints at the end.",
)
@JSON
@click.option("--out", type=FILE, help="Where to write the JSON, beside the table.")
@FORCE
def score(
    scores: Path,
    model: str | None,
    weights: tuple[float, float, float],
    last_checkpoints: int,
    as_json: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Score benchmarks as the E2LM competition does, from a plain table.

    Signal quality (SQ), monotonicity and autocorrelation are the competition's own formulas, on its
    window of early checkpoints. RC is inferred from a figure it published, CS is ours; RC takes two
    runs with later checkpoints, CS runs with science and with web in a column recipe. The JSON has
    more: {model: {benchmark: {statistic: value}}}, null with a reason where one is undefined.

    \b
    tokenmart e2lm score --scores scores.csv --out signal.json
    tokenmart e2lm score --scores scores.csv --model dense-1b-arch1 --weights 1,0,0
    """
    from plugins.benchmarks.e2lm.score import score_table
    from plugins.benchmarks.e2lm.score_view import print_scores
    from warehouse.files import write_whole

    workspace = workspace_for(out, force, b'"autocorrelation"')
    found = score_table(scores, workspace, model, weights, last_checkpoints)
    say(found.notes)
    text = as_text(found.entries)
    if as_json:
        click.echo(text)
    else:
        print_scores(found)
    if out is not None:
        benchmarks = {name for entry in found.entries.values() for name in entry}
        write_whole(out, text + "\n")
        counted = f"{len(found.entries)} models, {len(benchmarks)} benchmarks"
        click.echo(f"written {out} ({counted})", err=as_json)
    without = [
        f"{model}, {benchmark}: no SQ: {entry['reason']}"
        for model, entries in found.entries.items()
        for benchmark, entry in entries.items()
        if entry["reason"]
    ]
    more = len(without) - SHOWN_REASONS
    say([*without[:SHOWN_REASONS], *([f"and {more} more without SQ"] if more > 0 else [])])


@e2lm.command(short_help="Make a plain table of the harness's result files, or of evaluations.")
@click.argument("results", nargs=-1, type=FILE)
@click.option("--problem", help="Or take what `tokenmart eval` measured for this problem.")
@click.option(
    "--out",
    type=FILE,
    default="scores.csv",
    show_default=True,
    help="Write the table to this file.",
)
@click.option(
    "--direction",
    "directions",
    multiple=True,
    metavar="METRIC=higher|lower",
    help="Say which values of a metric are better, where its files don't; may be repeated.",
)
@FORCE
def collect(
    results: tuple[Path, ...],
    problem: str | None,
    out: Path,
    directions: tuple[str, ...],
    force: bool,
) -> None:
    """Make a plain table of the result files that lm-evaluation-harness wrote.

    RESULTS are files or folders with results_….json, one for each checkpoint. A problem of kind
    table reads the table. Checkpoints are told apart by all that the harness was told of them.
    With --problem, the table has the scores that `tokenmart eval` measured, after `tokenmart dbt
    run --select tag:benchmarks+`.

    \b
    tokenmart e2lm collect results --out scores.csv
    tokenmart e2lm collect --problem mine --out scores.csv
    """
    from plugins.benchmarks.scores.evaluated_scores import evaluated_scores
    from plugins.benchmarks.scores.harness_results import read_results

    if bool(results) == (problem is not None):
        raise click.UsageError("give either RESULTS or --problem")

    better = {}
    for given in directions:
        metric, _, direction = given.rpartition("=")
        if not metric or direction not in ("higher", "lower"):
            raise click.UsageError(f"--direction {given}: expected METRIC=higher or METRIC=lower")
        better[metric] = direction
    workspace = workspace_for(out, force, b"model,step,")
    found = (
        read_results(results, better)
        if problem is None
        else evaluated_scores(problem, workspace, better)
    )
    say(found.notes)
    models = {row["model"] for row in found.rows}
    write_out(out, found.csv(), f" ({len(found.rows)} scores of {len(models)} models)")


@e2lm.command(short_help="Write a page of curves, signal and decisions.")
@click.option("--problem", help="A problem of kind table, by name or path.")
@click.option("--scores", type=FILE, help="Or a plain table, as `tokenmart e2lm score` reads it.")
@click.option("--metric", help="The reading that the curves show; the target's by default.")
@click.option(
    "--out",
    type=FILE,
    default="signal.html",
    show_default=True,
    help="Write the page to this file.",
)
@FORCE
def report(
    problem: str | None, scores: Path | None, metric: str | None, out: Path, force: bool
) -> None:
    """Write the page of a table: curves with error bands, signal table, decisions by stage.

    One HTML file that needs no network.

    \b
    tokenmart e2lm report --problem ladder --out ladder.html
    tokenmart e2lm report --scores scores.csv --out signal.html
    """
    from analysis.report.cli import OWN_PAGE
    from plugins.benchmarks.page.curves import gather_page
    from plugins.benchmarks.page.signal_page import signal_page
    from warehouse.errors import TokenmartError
    from warehouse.progress import progress_bar

    if (problem is None) == (scores is None):
        raise TokenmartError("give either --problem or --scores")
    workspace = workspace_for(out, force, OWN_PAGE)
    data, notes = gather_page(problem, scores, metric, workspace)
    say(notes)
    with progress_bar(len(data.curves) + 1, "figures") as progress:
        page = signal_page(data, progress)
    write_out(out, page, f" ({len(page.encode()) / 1e6:.1f} MB)")


@e2lm.command(short_help="Compare the ways in which a benchmark can be read.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    default=("ladder", "pythia", "dclm"),
    show_default=True,
    help="A problem of kind table; may be repeated.",
)
@RESAMPLES
@SEED
@OUT_JSON
@FORCE
def readings(
    problems: tuple[str, ...], resamples: int, seed: int, out: Path | None, force: bool
) -> None:
    """Compare the ways a benchmark can be read: which one, early on, decides as the final score?

    Decision accuracy is the share of pairs of runs that an early reading of a benchmark orders as
    the benchmark's final score in the target's metric does. Intervals resample runs and tasks (all
    splits of one together). The held-out reading of a task is the one that is best on all others.

    \b
    tokenmart e2lm readings --problem ladder
    tokenmart e2lm readings --out readings.json
    """
    from plugins.benchmarks.e2lm.readings import compare_readings, print_readings

    workspace = workspace_for(out, force, b'"held_out"')
    found = [compare_readings(name, workspace, seed, resamples) for name in problems]
    if out is None:
        click.echo(as_text(found))
        return
    print_readings(found)
    write_out(out, as_text(found) + "\n")


@e2lm.command(short_help="Check a task and write submission.zip.")
@click.option("--task", required=True, type=FILE, help="The task's folder.")
@click.option("--harness", required=True, type=FILE, help="Your clone of lm-evaluation-harness.")
@click.option(
    "--out",
    type=FILE,
    default="submission.zip",
    show_default=True,
    help="Write the submission to this file.",
)
@click.option("--name", help="The task's name, where the folder defines several.")
@click.option("--metric", help="The metric to be judged by; the task's first one by default.")
@click.option(
    "--base", default="HEAD", show_default=True, help="The commit that the patch starts from."
)
@click.option(
    "--onto", type=FILE, help="Another clone, to whose HEAD the patch must apply as well."
)
@click.option("--python", help="The Python that runs the harness; this one by default.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Run so many samples only; the items of all are looked at in any case.",
)
@click.option(
    "--leaks-allowed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="So many prompts may hold their answer as a word.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="Stop the harness after so long.",
)
@FORCE
def package(
    task: Path,
    harness: Path,
    out: Path,
    name: str | None,
    metric: str | None,
    base: str,
    onto: Path | None,
    python: str | None,
    limit: int | None,
    leaks_allowed: int,
    seconds: int,
    force: bool,
) -> None:
    """Check a task and write submission.zip: evaluation.patch and metadata.yaml.

    Checked in a clean clone: the patch applies, the task loads and runs, every item has a right
    answer among its choices, the metric comes out as a number, it has 100 to 15,000 samples, no
    prompt holds its answer as a word, no secret is in the patch. The token that the organisers read
    the submission with comes from $HF_TOKEN and goes into the zip only.

    \b
    tokenmart e2lm package --task element_symbols --harness lm-evaluation-harness
    """
    import sys

    from plugins.benchmarks.e2lm.package import Wish
    from plugins.benchmarks.e2lm.package import package as write_package

    workspace_for(out, force, b"evaluation.patch")
    wish = Wish(
        task=task,
        harness=harness,
        name=name,
        metric=metric,
        base=base,
        onto=onto,
        python=python or sys.executable,
        limit=limit,
        leaks_allowed=leaks_allowed,
        seconds=seconds,
    )
    made = write_package(wish, out, lambda step: click.echo(f"{step} …", err=True))
    say(f"{path} is not tracked and left out of the patch" for path in made.patch.left_out)
    if made.unchecked:
        say([f"{made.unchecked} samples have no prompt to search for their answer"])
    click.echo(
        f"written {out}: {made.task} by {made.metric}, {made.samples} samples, {made.leaks} leaks, "
        f"patch of {len(made.patch.files)} files onto {made.patch.base[:12]}"
    )
