"""The bundle as one page of Markdown."""

from __future__ import annotations

from typing import Any


def bundle_page(bundle: dict[str, Any], verification: dict[str, Any]) -> str:
    """One page for a reader: what was submitted, how it scored, what it took, how to redo it."""
    metric, compute = bundle["metric"], bundle["compute"]["total"]
    code, files = bundle["code"], bundle["files"]
    sign = ", sign changed" if metric["negated"] else ""
    status = "official" if bundle["official"] else "**unofficial**"
    revision = code["revision"] or "unknown"
    lines = [
        f"# Submission to {bundle['problem']}: {metric['metric']}/{metric['variant']}{sign}",
        "",
        f"Status: {status}. Formula: `{metric['formula']}`",
        "",
        "## Result",
        "",
        "| statistic | value | 95% CI (percentile bootstrap) |",
        "|---|---|---|",
        _row("Spearman", verification["spearman"]),
        f"| Pearson | {_shown(verification['pearson']['value'])} | |",
        _row("skipped Spearman", verification["skipped_spearman"]),
        "",
        f"n = {verification['n']}; the MCD filter kept "
        f"{verification['skipped_spearman']['kept']}, dropped "
        f"{', '.join(verification['skipped_spearman']['dropped']) or 'none'}; seed "
        f"{verification['seed']}, {verification['resamples']} resamples."
        + "".join(
            f" Skipped Spearman: {note}."
            for note in (
                verification["skipped_spearman"]["note"],
                verification["skipped_spearman"]["ci_note"],
            )
            if note
        ),
        "",
        "## What it took",
        "",
        f"{compute['tokens_processed']:,} tokens processed, {compute['tokens_scored']:,} scored, "
        f"{compute['seconds'] / 3600:.2f} h wall-clock, peak {compute['peak_bytes'] / 1e9:.1f} GB, "
        f"on {', '.join(compute['devices']) or 'no recorded device'} "
        f"({', '.join(compute['dtypes']) or 'no recorded dtype'}). All conditions of the problem.",
        "",
        "| model | revision | tokens processed | tokens scored | seconds | peak GB |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for full_id, model in bundle["models"].items():
        cost = bundle["compute"]["models"].get(full_id.replace("/", "--"))
        cells = (
            [f"{cost['tokens_processed']:,}", f"{cost['tokens_scored']:,}",
             f"{cost['seconds']:.0f}", f"{cost['peak_bytes'] / 1e9:.1f}"]
            if cost
            else ["–"] * 4
        )  # fmt: skip
        lines.append(f"| {full_id} | `{model['revision']}` | {' | '.join(cells)} |")
    lines += [
        "",
        "## Files and versions",
        "",
        f"- code revision `{revision}`{' with local changes' if code['dirty'] else ''}; "
        f"extraction: {', '.join(f'`{r}`' for r in bundle['extraction_code']) or 'not recorded'} "
        "(`+`: with local changes)",
        f"- submission `{bundle['submission']['file']}`, sha256 `{bundle['submission']['sha256']}`",
        f"- proxy text `{files['proxy'].get('path') or files['proxy'].get('archive')}`, sha256 "
        f"`{files['proxy']['sha256']}`",
        f"- target `{files['target'].get('path', files['target']['kind'])}`, sha256 "
        f"`{files['target']['sha256']}`"
        + ("" if "path" in files["target"] else " (of the measured scores)"),
        f"- seeds: verification {bundle['seeds']['verification']}, extraction "
        f"{', '.join(map(str, bundle['seeds']['extraction'])) or 'not recorded'}",
        "- " + ", ".join(f"{name} {version}" for name, version in bundle["versions"].items()),
        f"- computed from {len(bundle['lineage']['ancestors'])} tables of the lineage graph; "
        + (
            f"labels among them: {', '.join(bundle['lineage']['labels'])}"
            if bundle["lineage"]["labels"]
            else "no label among them"
        ),
        "",
        "## Redo it",
        "",
        "```",
        f"tokenmart extract --problem {bundle['problem']}",
        "tokenmart dbt build",
        "tokenmart reproduce .",
        "```",
        "",
    ]
    return "\n".join(lines)


def _row(name: str, estimate: dict[str, Any]) -> str:
    interval = estimate["ci95"]
    shown = f"{_shown(interval['low'])} to {_shown(interval['high'])}"
    return f"| {name} | {_shown(estimate['value'])} | {shown} |"


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:+.4f}"
