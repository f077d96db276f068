"""`tokenmart correlate` and `tokenmart select`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, JSON, LAST_PROBLEM, RECORDS, RESAMPLES, SEED

if TYPE_CHECKING:
    from analysis.ranking.metric_table import Direction

METRIC = click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Show only this METRIC or METRIC/VARIANT; repeatable. p-values stay adjusted for all "
    "metrics tested.",
)
TOP = click.option(
    "--top",
    type=click.IntRange(1),
    help="Number of rows to show (default: 10, fewer where these need more than 25 lines); with "
    "`correlate --json`, of rows that get bootstrap intervals (default: the best and the "
    "baseline).",
)
EXPLAIN = click.option(
    "--explain", is_flag=True, help="Also print definitions of columns and all notes."
)


@click.command()
@LAST_PROBLEM
@METRIC
@TOP
@EXPLAIN
@click.option(
    "--sql",
    metavar="TEXT",
    help="Correlate the rows of this read-only SQL (columns model_id and value; $problem "
    "is the problem).",
)
@click.option(
    "--values",
    type=FILE,
    help="Correlate the numbers of this CSV, JSON or Parquet file (columns model_id and value).",
)
@click.option(
    "--name",
    default="idea",
    show_default=True,
    help="Name of the metric given by --sql or --values.",
)
@click.option(
    "--better",
    default="higher",
    show_default=True,
    type=click.Choice(["higher", "lower"]),
    help="Which values of the metric given by --sql or --values are better.",
)
@RESAMPLES
@SEED
@JSON
def correlate(
    problem: str,
    metrics: tuple[str, ...],
    top: int | None,
    explain: bool,
    sql: str | None,
    values: Path | None,
    name: str,
    better: Direction,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Rank the metrics of a problem by correlation with its target.

    Metrics where lower is better are negated first: a positive correlation means that the metric
    has the direction of its catalogue entry. --sql and --values add a metric of your own; a column
    `variant` separates several. p-values are adjusted for every metric ever tested for the problem,
    whatever is shown.

    \b
    tokenmart correlate --problem minilong
    tokenmart correlate --problem minilong --metric longppl --resamples 10000
    tokenmart correlate --problem minilong --json --top 20 > correlations.json
    tokenmart correlate --problem minilong --top 5 --better lower --sql "
        select model_id, avg(nll) as value from tokens
        where problem = 'minilong' and condition = 'full' and position > 1000 group by model_id"
    """
    from analysis.ranking.loading import document_parts, load_table, record_tested
    from analysis.ranking.record import ranking_record
    from analysis.ranking.results import rank_metrics
    from analysis.ranking.view import print_ranking, warn_outdated
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.progress import progress_bar

    if sql is not None and values is not None:
        raise click.UsageError("give one of: --sql, --values")
    workspace = find_workspace()
    chosen = load_ranked(problem, workspace)
    ideas = []
    if sql is not None or values is not None:
        from analysis.ranking.ideas import idea_from_file, idea_from_sql

        if sql is not None:
            ideas = idea_from_sql(sql, chosen, name)
        elif values is not None:
            ideas = idea_from_file(values, chosen, name)
    table = load_table(chosen, workspace, ideas, better)
    warn_outdated(table)
    table.named(metrics)
    ranking = rank_metrics(table, seed)
    rows = ranking.shown(metrics)
    if as_json:
        variants = [row for row in rows if row.column.kind == "variant"]
        wanted = [row for row in rows if row.column.kind != "variant"] + variants[: top or 1]
        wanted += [row for row in rows if row is ranking.baseline and row not in wanted]
        parts_of = partial(document_parts, workspace, table)
        with progress_bar(len(wanted), "variants") as progress:
            record = ranking_record(ranking, rows, wanted, parts_of, resamples, progress)
        record_tested(table, workspace)
        click.echo(json.dumps(record, indent=2, allow_nan=False))
    else:
        record_tested(table, workspace)
        follow = f"`tokenmart select --problem {table.option}`"
        print_ranking(ranking, rows, top, follow, choosing=False, explain=explain)


@click.command()
@LAST_PROBLEM
@METRIC
@TOP
@EXPLAIN
@click.option(
    "--splits",
    default=500,
    show_default=True,
    type=click.IntRange(10, 100_000),
    help="Number of random splits into training and test models.",
)
@click.option("--unofficial", is_flag=True, help="Include metrics that need a second model.")
@SEED
@JSON
def select(
    problem: str,
    metrics: tuple[str, ...],
    top: int | None,
    explain: bool,
    splits: int,
    seed: int,
    unofficial: bool,
    as_json: bool,
) -> None:
    """List the metrics that may be chosen, and those not distinguishable from the best.

    Only admissible metrics with a value for every model may be chosen; what is concluded about
    each is what `correlate` concludes. The choice itself is evaluated on families that are left
    out. --metric and --top only filter the display.

    \b
    tokenmart select --problem minilong
    tokenmart select --problem minilong --json > selection.json
    """
    from analysis.ranking.loading import load_table, record_tested
    from analysis.ranking.record import ranking_record
    from analysis.ranking.results import rank_metrics
    from analysis.ranking.view import print_ranking, warn_outdated
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked

    workspace = find_workspace()
    ranked = load_ranked(problem, workspace)
    table = load_table(ranked, workspace)
    warn_outdated(table)
    table.named(metrics)
    ranking = rank_metrics(table, seed, splits=splits, unofficial=unofficial)
    named = {row.column for row in ranking.shown(metrics)}
    rows = [row for row in ranking.candidates if row.column in named]
    record_tested(table, workspace)
    if as_json:
        record = ranking_record(ranking, rows)
        click.echo(json.dumps(record, indent=2, allow_nan=False))
        return
    best = ranking.best
    follow = f"`tokenmart report --problem {table.option}`"
    if best and not ranking.registered and ranking.answer in ("tracks", "none-tracks"):
        follow = (
            "on models without labels, `tokenmart preregister --problem PROBLEM --metric "
            f"{best.column.name}`"
        )
    print_ranking(ranking, rows, top, follow, choosing=True, explain=explain)


@click.command("compare")
@click.argument("model")
@click.argument("other_model")
@LAST_PROBLEM
@click.option("--metric", default="", help="METRIC/VARIANT; default: perplexity in bits per byte.")
@SEED
@RECORDS
def compare_command(
    model: str, other_model: str, problem: str, metric: str, seed: int, as_json: bool
) -> None:
    """Compare two models by a metric, over the documents or benchmark items that both have.

    Prints the difference with its interval (documents resampled), and an exact test: of all
    exchanges of the two models within documents (sign-flip; beyond 40 documents 100,000 are drawn),
    or McNemar's for answers that are right or wrong. Values are those before a last step such as
    exp. The target is not read, and p is not adjusted for other comparisons. Metrics of benchmarks
    are called METRIC/CONDITION, such as acc/arc_easy-0shot.

    \b
    tokenmart compare smollm2-135m gemma3-270m --problem demo
    tokenmart compare smollm2-135m gemma3-270m --problem demo --metric perplexity/bits_per_byte
    """
    from analysis.ranking.comparison import compare_models
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.terminal import print_records

    workspace = find_workspace()
    chosen = load_ranked(problem, workspace)
    record = compare_models(workspace, chosen, (model, other_model), metric, seed)
    if as_json:
        print_records([record])
    else:
        for name, value in record.items():
            shown = f"{value:.6g}" if isinstance(value, float) else value
            click.echo(visible(f"{name:<12} {'–' if value is None else shown}"))


@click.command("signature")
@click.argument("line")
def signature_command(line: str) -> None:
    """Compare a number's signature, LINE, with the one of its metric in this workspace.

    `correlate --json`, the report, `tm.correlate` and a submission's bundle have it. Prints each
    part with `same` or `DIFFERS`; exits with 1 if one differs.

    \b
    tokenmart signature "tokenmart 0.2.0 | demo:ab12cd34 | perplexity/micro:9f3e |
        8 models:77aa | fp32, sdpa"
    """
    from analysis.ranking.signature import compare_signature
    from warehouse.paths import find_workspace

    parts = compare_signature(find_workspace(), line)
    for part, given, here in parts:
        line_of_part = f"same     {part}: {here}"
        if given != here:
            line_of_part = f"DIFFERS  {part}: {given} in the line, {here} here"
        click.echo(visible(line_of_part))
    if differing := [part for part, given, here in parts if given != here]:
        raise TokenmartError(
            f"another value: {', '.join(differing)}", code="other-signature", where=differing[0]
        )
