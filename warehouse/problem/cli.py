"""`tokenmart data`: write a problem file, fetch what it needs, import scores made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.options import FILE, FORCE, MODELS, PROBLEM
from warehouse.paths import find_workspace
from warehouse.terminal import counted

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.models import ModelSpec
    from warehouse.problem.spec import Problem
    from warehouse.sources.folders import ProblemFolders


@click.group()
def data() -> None:
    """Write a problem file; download, import, check, audit and clean data."""


@data.command(short_help="Write a problem file for texts and models of your own.")
@click.argument("name")
@click.option(
    "--texts",
    type=FILE,
    required=True,
    help="Documents: a folder of .txt and .md files, one such file, or a .json, .jsonl, .csv or "
    ".parquet file with a column `text`.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    help="Model: its id on the hub, its folder, or its GGUF file; repeatable.",
)
@click.option(
    "--out",
    type=FILE,
    help="Write the problem file to this path instead of NAME.yml.",
)
def new(name: str, texts: Path, models: tuple[str, ...], out: Path | None) -> None:
    """Write a problem file for your own texts and models. It runs without changes.

    \b
    tokenmart data new mine --texts texts --model models/my-checkpoint
    tokenmart data new mine --texts texts.jsonl --model Qwen/Qwen2.5-0.5B --model gpt2
    """
    from warehouse.problem.new_problem import write_problem

    workspace = find_workspace()
    out = out or Path(f"{name}.yml")
    made, short = write_problem(workspace, name, texts, models, out)
    for line in short:
        click.echo(f"{line}.")
    click.echo(f"wrote {out}: {counted(len(models), 'model')}, no target; next:")
    click.echo(f"  tokenmart extract --problem {made.argument}   # --dry-run prints the cost")
    click.echo("  tokenmart dbt build")
    click.echo(f"  tokenmart sql \"from metric_values where problem = '{made.name}' order by all\"")


@data.command(short_help="Download a problem's files and verify their checksums.")
@PROBLEM
@click.option(
    "--only",
    type=click.Choice(["documents", "models", "target"]),
    help="Download only files of this kind.",
)
@MODELS
@click.option(
    "--offline", is_flag=True, help="Verify the files that are present and download nothing."
)
def fetch(problem_name: str, only: str | None, models: tuple[str, ...], offline: bool) -> None:
    """Download a problem's files and verify their checksums. Existing files are kept.

    Files placed by hand are accepted if their checksum is right. Checkpoints on the hub are large:
    they are downloaded with --only models or --model, or when `tokenmart extract` needs them. By
    default a locked target is downloaded too; preregistration is closed from then on.

    \b
    tokenmart data fetch --problem minilong
    tokenmart data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct
    """
    from warehouse.problem.problem_files import problem_kind, read_problem_file
    from warehouse.problem.spec import load_problem
    from warehouse.problem.tables import ensure_documents

    workspace = find_workspace()
    if other := problem_kind(problem_name, read_problem_file(problem_name, workspace), workspace):
        other.fetch()
        return
    problem = load_problem(problem_name, workspace)
    chosen = [problem.model(name) for name in models] or list(problem.ranked_models)
    kind = only or ("models" if models else None)
    if models and kind != "models":
        raise click.UsageError(f"--model goes with --only models, not --only {only}")
    if kind in (None, "target") and not offline:
        _warn_of_target(problem, workspace, kind)
    folders = problem.folders(workspace, offline)
    if kind in (None, "documents"):
        table = ensure_documents(problem, workspace, offline=offline)
        characters, licence = sum(table["characters"].to_pylist()), problem.documents.licence
        click.echo(f"documents: {table.num_rows} ({characters:,} characters; licence: {licence})")
    if kind in (None, "models"):
        _fetch_models(folders, chosen, kind == "models")
    if kind in (None, "target"):
        _fetch_target(problem, folders)


def _warn_of_target(problem: Problem, workspace: Workspace, kind: str | None) -> None:
    """Print that downloading the locked target closes preregistration.

    Nothing is printed if the target is or was here, or if it alone is downloaded and a metric is
    preregistered.
    """
    from warehouse.problem.spec import FileTarget
    from warehouse.sources.lock_file import name_in, recorded_files

    target = problem.target
    if not isinstance(target, FileTarget) or (workspace.root / target.path).exists():
        return
    recorded = name_in(workspace, target.path) in recorded_files(workspace, problem.name)
    registered = (workspace.preregistered / f"{problem.name}.json").exists()
    if not recorded and not (kind == "target" and registered):
        click.echo(
            "note: this downloads the target; preregistration is closed from then on. To "
            "preregister first, stop here and run: tokenmart preregister --problem "
            f"{problem.argument}",
            err=True,
        )


def _fetch_target(problem: Problem, folders: ProblemFolders) -> None:
    from warehouse.problem.required_files import scored_models
    from warehouse.problem.spec import FileTarget, RecallTarget
    from warehouse.problem.target_file import read_locked_target
    from warehouse.sources.lock_file import ensure_locked_file

    target, workspace = problem.target, folders.workspace
    if target is None:
        click.echo("target: none; the problem is for `tokenmart extract` and `tokenmart sql`")
    elif isinstance(target, RecallTarget):
        click.echo(f"target: {len(target.filler.texts(folders))} filler texts for the recall task")
    elif isinstance(target, FileTarget):
        file = ensure_locked_file(target.path, target.url, folders, "target")
        models = [spec.full_id for spec in problem.ranked_models]
        read_locked_target(workspace, problem.name, target.path, models, argument=problem.argument)
        click.echo(f"target: {file}")
    else:
        done = len(scored_models(problem, workspace))
        click.echo(
            f"target: imported for {done} of {len(problem.ranked_models)} models "
            f"(tokenmart data import --problem {problem.argument})"
        )


def _fetch_models(folders: ProblemFolders, chosen: list[ModelSpec], with_on_demand: bool) -> None:
    checkpoints = {(spec.source, spec.base or spec.full_id): spec for spec in reversed(chosen)}
    later = [spec for spec in checkpoints.values() if spec.source.on_demand and not with_on_demand]
    for (source, name), spec in reversed(checkpoints.items()):
        if spec not in later:
            located = source.locate(name, folders)
            revision = f"revision {located.revision[:12]}; licence: {spec.licence}"
            click.echo(f"model: {name} at {located.path} ({revision})")
    if later:
        click.echo(f"models: {len(later)} on the hub, fetched when needed (now: --only models)")


@data.command("import", short_help="Import scores or answers of another program.")
@PROBLEM
@click.option("--model", required=True, help="Id of the model that was scored.")
@click.option("--format", "format_name", required=True, help="Format of the files.")
@click.option("--condition", help="Context condition of prompt-logprobs; default: full.")
@FORCE
@click.option("--no-audit", is_flag=True, help="Import log-probabilities without recomputing some.")
@click.argument("files", nargs=-1, required=True, type=FILE)
def import_(
    problem_name: str,
    model: str,
    format_name: str,
    condition: str | None,
    force: bool,
    no_audit: bool,
    files: tuple[Path, ...],
) -> None:
    """Import scores, log-probabilities, benchmark answers or key text of one model.

    Scores become the target of a problem file with `target: {kind: imported}`. Answers are stored
    like those of `tokenmart eval`, with the program that ran the model. Import all tasks of a model
    together, from one or more files. If any row is invalid, nothing is written.

    \b
    Formats of scores:
      items           CSV, JSON, JSON lines or Parquet with task, item and score, and optionally
                      cluster and context_tokens; docs/how_to/import_scores.md has queries that
                      write it from results of other programs

    \b
    Formats of log-probabilities of whole documents (docs/how_to/import_logprobs.md):
      prompt-logprobs JSON lines of vLLM (prompt_logprobs) or SGLang (meta_info), or a table with
                      doc_id, position, token_id and logprob, and optionally rank, top_logprob
                      and entropy

    \b
    Formats of benchmark answers:
      samples         samples_<task>_<date>.jsonl of lm-evaluation-harness (--log_samples)

    \b
    Formats of key text, for longppl_external; --model names the evaluator:
      key-intervals   CSV, JSON lines or Parquet with document_sha256, char_start and char_end

    \b
    tokenmart data import --problem mine --model org/model --format items scores.csv
    tokenmart data import --problem mine --model org/model --format samples *.jsonl
    """
    from warehouse.problem.importers import Destination, ItemsImporter, importer
    from warehouse.problem.models import refuse_no_id, slug
    from warehouse.problem.spec import ImportedTarget, load_problem

    workspace = find_workspace()
    reader = importer(format_name)
    problem = load_problem(problem_name, workspace)
    if reader.of_other_models:
        refuse_no_id(full_id := model)
    else:
        full_id = problem.model(model).full_id
    if isinstance(reader, ItemsImporter) and not isinstance(problem.target, ImportedTarget):
        kind = "no target" if problem.target is None else f"a target of kind {problem.target.kind}"
        raise TokenmartError(
            f"problem {problem.name} has {kind}, which imported scores would not change; write "
            "`target: {kind: imported}` in its file to use them"
        )
    if condition and not reader.has_conditions:
        raise TokenmartError(
            f"--condition {condition}: files of the format {format_name} have no condition",
            code="no-condition",
            where="--condition",
        )
    names = problem.name, slug(full_id)
    to = Destination(workspace, *names, force, problem.argument, condition or "full", not no_audit)
    counts = reader.import_files(files, to)
    groups = ", ".join(f"{group} ({count})" for group, count in counts.items())
    item, group = reader.counts
    click.echo(
        f"{full_id}: {counted(sum(counts.values()), item)} of "
        f"{counted(len(counts), group)}: {groups}; next: {reader.build}"
    )
