"""`tokenmart data`: write a problem file, fetch what it needs, import scores made elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.options import FILE, FORCE, MODELS, PROBLEM
from warehouse.paths import find_workspace
from warehouse.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from warehouse.paths import Workspace
    from warehouse.problem.spec import ModelSpec, Problem
    from warehouse.sources.place import Place

NO_TARGET = "target: none; the problem is for `tokenmart extract` and `tokenmart sql`"


@click.group()
def data() -> None:
    """Write a problem file; fetch, import, check and clean its data."""


@data.command(short_help="Write a problem file for texts and models of your own.")
@click.argument("name", required=False)
@click.option(
    "--texts",
    type=FILE,
    help="Read the documents from this folder of .txt and .md files, from one such file, or from "
    "a .json or .jsonl file; .gz is unpacked.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Take this model: its id on the hub, its folder, or its GGUF file; repeatable.",
)
@click.option(
    "--out",
    type=FILE,
    help="Write the problem file there instead of NAME.yml in this folder.",
)
def new(name: str | None, texts: Path | None, models: tuple[str, ...], out: Path | None) -> None:
    """Write a problem file for texts and models of your own; it runs as it is.

    What is not given is asked for on a terminal. Nothing is fetched or loaded.

    \b
    tokenmart data new mine --texts texts --model models/my-checkpoint
    tokenmart data new mine --texts texts.jsonl --model Qwen/Qwen2.5-0.5B --model gpt2
    """
    from warehouse.files import refuse_protected
    from warehouse.problem.new_problem import CHARACTERS_PER_TOKEN, write_problem

    asks = sys.stdin.isatty()
    missing = [
        what for what, got in (("NAME", name), ("--texts", texts), ("--model", models)) if not got
    ]
    if missing and not asks:
        raise click.UsageError(
            f"{', '.join(missing)} missing; tokenmart data new NAME --texts DIR --model ID|DIR"
        )
    name = name or click.prompt("name of the problem (lower-case letters, digits, - and _)")
    texts = texts or Path(click.prompt("folder or file with the texts")).expanduser()
    while not models or (asks and "--model" in missing):
        more = click.prompt(
            "another model (Enter for no more)" if models else "model (id on the hub, or folder)",
            default="" if models else None,
            show_default=False,
        )
        if not more:
            break
        models = (*models, more)
    workspace = find_workspace()
    out = out or Path(f"{name}.yml")
    refuse_protected(out, workspace, force=True)  # what is there is never replaced: see below
    made = write_problem(workspace, str(name), texts, models, out)
    tokens = sum(made.lengths) // CHARACTERS_PER_TOKEN
    asked = made.problem.asked
    click.echo(
        f"wrote {out}: {counted(len(made.lengths), 'document')} (about {tokens:,} tokens), "
        f"{counted(len(models), 'model')}, no target"
    )
    for model in made.problem.models:
        where = "the hub, when it is first needed" if model.source.on_demand else "this machine"
        click.echo(f"  model {model.full_id} comes from {where}")
    click.echo("next:")
    click.echo(f"  tokenmart extract --problem {asked} --dry-run   # what it costs")
    click.echo(f"  tokenmart extract --problem {asked}")
    click.echo("  tokenmart dbt build")
    click.echo(
        '  tokenmart sql "select metric, variant, model_id, value from metric_values '
        f"where problem = '{made.problem.name}'\""
    )


@data.command(short_help="Bring what a problem needs, checked by hash.")
@PROBLEM
@click.option(
    "--only", type=click.Choice(["documents", "models", "target"]), help="Fetch this kind only."
)
@MODELS
@click.option("--offline", is_flag=True, help="Check what is here and download nothing.")
@click.option("--dry-run", is_flag=True, help="Say what is here and what would be fetched.")
def fetch(
    problem_name: str, only: str | None, models: tuple[str, ...], offline: bool, dry_run: bool
) -> None:
    """Bring what a problem needs, checked by hash; what is here already is kept.

    Files placed by hand are accepted when their hash is right. Checkpoints of the hub are
    large: they are fetched with --only models or --model, or when `tokenmart extract` needs
    them. Without --only a locked target comes too, and ends pre-registration.

    \b
    tokenmart data fetch --problem minilong
    tokenmart data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct
    """
    from warehouse.problem.kinds import problem_kind
    from warehouse.problem.problem_files import read_problem_file
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    if other := problem_kind(problem_name, read_problem_file(problem_name, workspace), workspace):
        other.fetch(dry_run)
        return
    problem = load_problem(problem_name, workspace)
    chosen = [problem.model(name) for name in models]
    kind = only or ("models" if models else None)
    if models and only not in (None, "models"):
        raise click.UsageError(f"--model goes with --only models, not --only {only}")
    brings_target = kind in (None, "target") and not offline
    if brings_target and (note := _about_target(problem, workspace, kind)):
        click.echo(note, err=True)
    if dry_run:
        _show_needs(problem, workspace, kind, chosen)
        return
    place = problem.place(workspace, offline)
    steps: dict[str, Callable[[], None]] = {
        "documents": lambda: _fetch_documents(problem, workspace, offline),
        "models": lambda: _fetch_models(problem, place, chosen, kind == "models"),
        "target": lambda: _fetch_target(problem, place),
    }
    failures: list[TokenmartError] = []
    for name, step in steps.items():
        if kind in (None, name):
            try:
                step()
            except TokenmartError as error:
                failures.append(error)
    failures.sort(key=lambda failure: failure.exit_code)
    for failure in failures[:-1]:
        failure.show()
    if failures:
        raise failures[-1]


def _show_needs(
    problem: Problem, workspace: Workspace, kind: str | None, chosen: list[ModelSpec]
) -> None:
    from warehouse.problem.needs import downloads_text, problem_needs

    needs = [n for n in problem_needs(problem, workspace, chosen or None) if kind in (None, n.kind)]
    for need in needs:
        state = "here   " if need.present else "missing"
        where = need.path if need.present else f"from {need.source}"
        if not need.present and need.download_bytes:
            where += f", about {need.download_bytes / 1e9:,.1f} GB"
        click.echo(f"{state}  {need.kind:<9}  {need.name}  ({where})")
    if to_fetch := downloads_text(needs):
        click.echo(f"to download: {to_fetch}")
    if problem.target is None and kind in (None, "target"):
        click.echo(NO_TARGET)


def _fetch_documents(problem: Problem, workspace: Workspace, offline: bool) -> None:
    from warehouse.sources.fetch import ensure_documents

    table = ensure_documents(problem, workspace, offline=offline)
    characters = sum(table["characters"].to_pylist())
    licence = problem.documents.licence
    click.echo(f"documents: {table.num_rows} ({characters:,} characters; licence: {licence})")


def _about_target(problem: Problem, workspace: Workspace, kind: str | None) -> str:
    """What a locked target ends, said before it is brought; empty where it was brought before.

    Nor is it said to who asks for the target alone and has registered something.
    """
    from warehouse.problem.needs import later_target

    registered = (workspace.preregistered / f"{problem.name}.json").exists()
    if not later_target(problem, workspace) or (kind == "target" and registered):
        return ""
    named = f"--problem {problem.asked}"
    return (
        "note: this brings the target, after which no metric can be registered as said before "
        f"labels; if you have a claim to make, stop here (Ctrl-C), then: tokenmart data fetch "
        f"{named} --only documents, and tokenmart preregister {named} --metric METRIC/VARIANT"
    )


def _fetch_target(problem: Problem, place: Place) -> None:
    from warehouse.problem.needs import scored_models
    from warehouse.problem.recall_target import RecallTarget
    from warehouse.problem.spec import FileTarget
    from warehouse.problem.target_file import read_locked_target
    from warehouse.sources.locked_files import ensure_locked_file

    target = problem.target
    if target is None:
        click.echo(NO_TARGET)
    elif isinstance(target, RecallTarget):
        click.echo(f"target: {len(target.filler.texts(place))} filler texts for the recall task")
    elif isinstance(target, FileTarget):
        file = ensure_locked_file(target.path, target.url, place, "target")
        models = [spec.full_id for spec in problem.ranked_models]
        workspace, asked = place.workspace, problem.asked
        read_locked_target(workspace, problem.name, target.path, models, asked=asked)
        click.echo(f"target: {file}")
    else:
        done = len(scored_models(problem, place.workspace))
        click.echo(
            f"target: imported for {done} of {len(problem.ranked_models)} models "
            f"(tokenmart data import --problem {problem.asked})"
        )


def _fetch_models(
    problem: Problem, place: Place, chosen: list[ModelSpec], with_on_demand: bool
) -> None:
    done: set[tuple[object, str]] = set()
    later = 0
    for spec in chosen or problem.ranked_models:
        checkpoint = (spec.source, spec.base or spec.full_id)
        if spec.source.on_demand and not with_on_demand:
            later += 1
        elif checkpoint not in done:
            done.add(checkpoint)
            found = spec.locate(place)
            click.echo(
                f"model: {checkpoint[1]} at {found.path} (revision {found.revision[:12]}; "
                f"licence: {spec.licence})"
            )
    if later:
        click.echo(f"models: {later} on the hub, fetched when needed (now: --only models)")


@data.command("import", short_help="Bring in scores or answers that were made elsewhere.")
@PROBLEM
@click.option("--model", required=True, help="The model that was scored, by its id.")
@click.option("--format", "format_name", required=True, help="How the files are written.")
@click.option("--metric", help="The metric to take, where the files hold several.")
@FORCE
@click.argument("files", nargs=-1, required=True, type=FILE)
def import_(
    problem_name: str,
    model: str,
    format_name: str,
    metric: str | None,
    force: bool,
    files: tuple[Path, ...],
) -> None:
    """Bring in scores, benchmark answers or key text of one model, made elsewhere.

    Scores become the target: the problem file says `target: {kind: imported}`. Answers go beside
    those of `tokenmart eval`, marked with what ran the model. All tasks of a model come in
    together, one or more files at once; nothing is written when any row is wrong.

    \b
    Formats of scores:
      items    CSV, JSON, JSON lines or Parquet with task, item and score, and optionally
               cluster and context_tokens
      lm-eval  samples_<task>_<date>.jsonl, as lm-evaluation-harness writes with --log_samples

    \b
    Formats of benchmark answers:
      samples         the same files, every choice and generated text of them
      token-logprobs  JSON lines or Parquet, a request a line, with lists of its tokens
      vllm            the same with vLLM's prompt_token_ids and prompt_logprobs

    \b
    Formats of key text, for longppl_external; --model names the evaluator:
      key-intervals   CSV, JSON lines or Parquet with document_sha256, char_start and char_end, or
                      LongPPL's slice_<document>.txt

    \b
    tokenmart data import --problem mine --model org/model --format items scores.csv
    tokenmart data import --problem mine --model org/model --format lm-eval --metric acc *.jsonl
    tokenmart data import --problem mine --model org/model --format samples *.jsonl
    """
    from warehouse.importers.store import import_items, importer, storing_importers
    from warehouse.problem.spec import ImportedTarget, load_problem, slug

    workspace = find_workspace()
    if (storing := storing_importers().get(format_name)) is not None:
        if metric is not None:
            raise TokenmartError(f"--metric: format {format_name} imports all; leave it out")
        problem = load_problem(problem_name, workspace)
        full_id = model if storing.of_other_models else problem.model(model).full_id
        found = storing().import_files(files, workspace, problem.name, slug(full_id), force=force)
        _say_imported(full_id, found)
        return
    reader = importer(format_name, metric)
    problem = load_problem(problem_name, workspace)
    spec = problem.model(model)
    if not isinstance(problem.target, ImportedTarget):
        kind = "no target" if problem.target is None else f"a target of kind {problem.target.kind}"
        raise TokenmartError(
            f"problem {problem.name} has {kind}, which imported scores would not change; write "
            "`target: {kind: imported}` in its file to use them"
        )
    counts = import_items(reader, files, workspace, problem.name, spec.model_id, force=force)
    _say_imported(spec.full_id, counts)


def _say_imported(full_id: str, counts: dict[str, int]) -> None:
    tasks = ", ".join(f"{task} ({count})" for task, count in counts.items())
    click.echo(
        f"{full_id}: {counted(sum(counts.values()), 'item')} of "
        f"{counted(len(counts), 'task')}: {tasks}"
    )
