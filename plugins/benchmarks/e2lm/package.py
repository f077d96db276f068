"""`tokenmart e2lm package`: check a task and write a submission for the E2LM competition."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plugins.benchmarks.e2lm.leakage import PromptedItem, leaking
from plugins.benchmarks.e2lm.patch import (
    Patch,
    apply_cleanly,
    find_base,
    make_patch,
    refuse_secrets,
    task_names,
)
from plugins.benchmarks.refusal import refused, unknown
from warehouse.errors import visible
from warehouse.files import write_whole

FEWEST, MOST = 100, 15_000
"""Minimum and maximum number of samples in the competition's rules."""

SECONDS = 600
"""Time limit of the harness."""

TOKEN = "HF_TOKEN"
_TOKEN_NAMES = (TOKEN, "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")

_FAILED = {
    "import": "does not start",
    "load": "does not load the task",
    "items": "can't use the task's items",
    "run": "can't run the task",
}


@dataclass(frozen=True)
class Packaged:
    """Contents of a submission.

    unchecked: number of samples without a prompt to search for the answer.
    notes: what hardly anybody wants of the prompts, one sentence each.
    """

    task: str
    metric: str
    patch: Patch
    samples: int
    unchecked: int
    notes: tuple[str, ...]


def package(
    task: Path,
    harness: Path,
    out: Path,
    say: Callable[[str], None],
    *,
    name: str | None = None,
    metric: str | None = None,
    python: str = sys.executable,
    limit: int | None = None,
) -> Packaged:
    """Check a task in a clean clone and write `out`, which contains patch and metadata.

    Args:
        task: its folder.
        harness: the clone; the patch starts from its HEAD.
        out: the zip; readable by its owner only, because it contains the access token.
        say: called with the name of each step.
        name: of the task; None for the only one in the folder.
        metric: of the submission; None for the task's first.
        python: runs the harness.
        limit: number of samples to run; None for all.

    Raises:
        TokenmartError: a check fails, or the environment has no token.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token or not token.isprintable() or " " in token:
        what = f"not set to a token; the organisers read the submission with it: `export {TOKEN}=…`"
        raise refused(f"${TOKEN}", what, "no-token")
    name = name or _only_task(task)
    base = find_base(harness)
    with tempfile.TemporaryDirectory(prefix="tokenmart-e2lm-") as folder:
        scratch = Path(folder)
        say("making the patch")
        patch = make_patch(task, harness, base, scratch)
        say(f"applying it to a clean clone ({len(patch.files)} files)")
        clean = apply_cleanly(patch, harness, scratch)
        refuse_secrets(patch, clean, token)
        say(f"loading {name} there and running {limit or 'all'} samples")
        record = _run_harness(python, clean, name, limit, scratch, token)
    metric, items = judge(name, metric, record)
    metadata = yaml.safe_dump(
        {"task_name": name, "task_metric": metric, "hf_token": token}, sort_keys=False
    )
    _write_zip(out, {"evaluation.patch": patch.text, "metadata.yaml": metadata.encode()})
    unchecked = sum(item.prompt is None for item in items)
    return Packaged(name, metric, patch, len(items), unchecked, tuple(record["notes"]))


def judge(name: str, metric: str | None, record: dict[str, Any]) -> tuple[str, list[PromptedItem]]:
    """Metric and items of a task that ran.

    Args:
        name: name of the task.
        metric: that of the submission; None for the task's first.
        found: result of `harness_check.check`.

    Raises:
        TokenmartError: too few or too many samples, an unknown metric, a metric without a number,
            or prompts that contain their answer.
    """
    items = [
        PromptedItem(item["prompt"], tuple(item["answers"]), tuple(item["choices"]))
        for item in record["items"]
    ]
    if not FEWEST <= len(items) <= MOST:
        what = f"{len(items)} samples; the rules require {FEWEST} to {MOST:,}"
        raise refused(name, what, "number-of-samples")
    chosen = _metric(name, metric, record["results"])
    if leaks := leaking(items):
        shown = "; ".join(
            f"sample {at}: {items[at].answers[0].strip()!r} in {items[at].prompt!r}"[:160]
            for at in leaks[:3]
        )
        what = f"{len(leaks)} of {len(items)} prompts contain their answer as a word ({shown})"
        raise refused(name, what, "leaks")
    return chosen, items


def _only_task(folder: Path) -> str:
    names = task_names(folder)
    if len(names) != 1:
        raise refused(
            folder,
            f"its YAML files define {', '.join(names) or 'no task'}; name one with --name",
            "several-tasks" if names else "no-task",
        )
    return names[0]


def _run_harness(
    python: str, clean: Path, name: str, limit: int | None, scratch: Path, token: str
) -> dict[str, Any]:
    """Findings of `harness_check` in the clean clone."""
    out = scratch / "found.json"
    source = Path(__file__).with_name("harness_check.py").read_text(encoding="utf-8")
    # the access token is not passed to other programs, as argument or in the environment
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in _TOKEN_NAMES and token not in value
    }
    kept |= {"PYTHONPATH": str(clean), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [python, "-c", source, name, str(limit or 0), str(out)],
            cwd=clean,
            env=kept,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise refused(f"--python {python}", "no such program", "no-python") from error
    except subprocess.TimeoutExpired as error:
        what = f"the harness took over {SECONDS} s; run fewer samples with --limit"
        raise refused(name, what, "too-slow") from error
    if not out.is_file():
        last = visible((done.stderr.strip().splitlines() or ["no message"])[-1])[:300]
        raise refused(name, f"the harness ended without a result ({last})", "no-result")
    record: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if failed := record["failed"]:
        message = visible(" ".join(str(record["error"]).split()))[:300]
        remedy = "; name with --python one that the clone runs in" * (failed == "import")
        what = f"lm-evaluation-harness {_FAILED[failed]} ({message}){remedy}"
        raise refused(name, what, f"harness-{failed}")
    if not Path(record["harness"]).is_relative_to(clean.resolve()):
        what = f"uses {record['harness']} and not the clone; name another"
        raise refused(f"--python {python}", what, "other-harness")
    return record


def _metric(name: str, wanted: str | None, results: dict[str, Any]) -> str:
    """The metric of the submission, which the run must have computed."""
    values: dict[str, Any] = {}
    for key, value in results.items():
        metric = key.split(",")[0]
        if not metric.endswith("_stderr"):
            values.setdefault(metric, value)
    if not values:
        raise refused(name, "the run computed no metric; give the task a metric_list", "no-metric")
    chosen = wanted or next(iter(values))
    if chosen not in values:
        raise unknown("--metric", chosen, values)
    value = values[chosen]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        what = f"{chosen} is {value!r} on the samples that were run, expected a finite number"
        raise refused(name, what, "no-number")
    return chosen


def _write_zip(out: Path, members: dict[str, bytes]) -> None:
    """Write a zip that depends on its members only, readable by its owner only."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, data)
    before = os.umask(0o077)
    try:
        write_whole(out, content.getvalue())
    finally:
        os.umask(before)
