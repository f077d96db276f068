"""The verifier's document in plain text, printed and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from analysis.statistics.correlations import signed
from analysis.submission.verifier import TARGET_PATH
from warehouse.errors import StorageError
from warehouse.files import refuse_protected, storage_errors, write_whole
from warehouse.paths import Workspace


def show_result(
    result: dict[str, Any],
    workspace: Workspace,
    submission: Path,
    out: Path | None,
    as_json: bool,
    force: bool = False,
) -> None:
    """Save the document where asked, never over one of the files it came from, and print it.

    An earlier result is replaced; any other file with `force` only.

    Raises:
        StorageError: `out` is one of the inputs or can't be written.
        TokenmartError: `out` is a file that the project must keep.
    """
    text = json.dumps(result, indent=2, allow_nan=False)
    if out is not None:
        inputs = (submission, workspace.root / TARGET_PATH)
        with storage_errors(out):
            is_input = any(out.exists() and path.exists() and out.samefile(path) for path in inputs)
        if is_input:
            raise StorageError(f"{out}: --out names an input file; choose another path")
        refuse_protected(out, workspace, force=force, expected=b'"skipped_spearman"')
        write_whole(out, text + "\n")
    click.echo(text if as_json else result_text(result))


def result_record(result: dict[str, Any]) -> dict[str, Any]:
    """The document's main numbers, without nesting."""
    record = {"problem": result["problem"], "n": result["n"], "pearson": result["pearson"]["value"]}
    for name in ("spearman", "skipped_spearman"):
        record[name] = result[name]["value"]
        record |= {f"{name}_ci95_{end}": result[name]["ci95"][end] for end in ("low", "high")}
    return record | {f"{each}_sha256": result[each]["sha256"] for each in ("submission", "target")}


def result_text(result: dict[str, Any]) -> str:
    """The document in a few lines of plain text."""
    skipped, target = result["skipped_spearman"], result["target"]
    stability = skipped["stability"]
    dropped = ", ".join(skipped["dropped"]) or "none"
    revision = result["code"]["revision"] or "unknown (not a git checkout)"
    changes = " (with local changes)" if result["code"]["dirty"] else ""
    lines = [
        f"problem            {result['problem']}, n = {result['n']} models",
        f"Spearman           {_line(result['spearman'])}",
        f"Pearson            {_value(result['pearson']['value'])}",
        f"skipped Spearman   {_line(skipped)}",
        f"  kept             {skipped['kept']} of {result['n']}; dropped: {dropped}",
        f"  stability        same points dropped under {stability['same_points_dropped']:.0%} of "
        f"{stability['random_states']} random states; value {_value(stability['low'])} to "
        f"{_value(stability['high'])}",
        f"seed, resamples    {result['seed']}, {result['resamples']}",
        f"submission sha256  {result['submission']['sha256']}",
        f"target sha256      {target['sha256']} ({target.get('path') or 'measured scores'})",
        f"code revision      {revision}{changes}",
    ]
    if foreign := result["code"]["foreign_modules"]:
        lines.append(f"NOT THE INSTALLED  {', '.join(foreign)}: something is before them")
    notes = [f"  note             {note}" for note in (skipped["note"], skipped["ci_note"]) if note]
    if exact := skipped["exact"]:
        points = "the same points" if exact["same_points"] else "OTHER POINTS: this seed missed it"
        notes.append(
            f"  best of all halves {_value(exact['value'])}, {exact['kept']} kept, {points}"
        )
    lines[6:6] = notes
    return "\n".join(lines)


def _value(value: float | None) -> str:
    return "undefined" if value is None else signed(value, 4)


def _line(estimate: dict[str, Any]) -> str:
    interval = estimate["ci95"]
    text = (
        f"{_value(estimate['value'])}   95% CI {_value(interval['low'])} to "
        f"{_value(interval['high'])} ({interval['method']} bootstrap"
    )
    if interval["degenerate_resamples"]:
        text += f", {interval['degenerate_resamples']} degenerate resamples left out"
    return text + ")"
