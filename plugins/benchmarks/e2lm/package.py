"""`tokenmart e2lm package`: check a task and write a submission for the E2LM competition."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plugins.benchmarks.e2lm.judge_file import judged_items
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

    leaks: number of samples whose prompt contains the answer. unchecked: number of samples without
    a prompt. judged: the file of items for the judge.
    """

    task: str
    metric: str
    patch: Patch
    samples: int
    leaks: int
    unchecked: int
    judged: Path


@dataclass(frozen=True)
class Wish:
    """The request to package a task.

    task: its folder. harness: the clone. name: None for the only task. metric: None for its first
    metric. base: base commit of the patch. onto: clean clone that it must apply to; None for the
        harness at `base`.
    python: Python that runs the harness. limit: number of samples to run; None for all.
        leaks_allowed: number of prompts that may contain their answer.
    seconds: time limit of the harness.
    """

    task: Path
    harness: Path
    name: str | None = None
    metric: str | None = None
    base: str = "HEAD"
    onto: Path | None = None
    python: str = sys.executable
    limit: int | None = None
    leaks_allowed: int = 0
    seconds: int = 600


def package(wish: Wish, out: Path, say: Callable[[str], None]) -> Packaged:
    """Check a task in a clean clone and write `out`, which contains patch and metadata.

    A file next to it has 50 items in the format of the organisers' judge (`judge_path`).

    Args:
        wish: the request.
        out: the zip; readable by its owner only, because it contains the access token.
        say: called with the name of each step.

    Raises:
        TokenmartError: a check fails, or the environment has no token.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token or not token.isprintable() or " " in token:
        raise refused(
            f"${TOKEN}",
            f"{'not set' if not token else 'no token'}; the organisers read the submission with "
            f"it: `export {TOKEN}=…`",
            "no-token",
        )
    name = wish.name or _only_task(wish.task)
    base = find_base(wish.harness, wish.base)
    onto = wish.onto or wish.harness
    revision = base if wish.onto is None else find_base(onto, "HEAD")
    with tempfile.TemporaryDirectory(prefix="tokenmart-e2lm-") as folder:
        scratch = Path(folder)
        say("making the patch")
        patch = make_patch(wish.task, wish.harness, base, scratch)
        refuse_secrets(patch, token)
        say(f"applying it to a clean clone ({len(patch.files)} files)")
        clean = apply_cleanly(patch, onto, revision, scratch)
        say(f"loading {name} there and running {wish.limit or 'all'} samples")
        found = _run_harness(wish, clean, name, scratch, token, say)
    metric, items, leaks = judge(name, wish, found)
    metadata = yaml.safe_dump(
        {"task_name": name, "task_metric": metric, "hf_token": token}, sort_keys=False
    )
    _write_zip(out, {"evaluation.patch": patch.text, "metadata.yaml": metadata.encode()})
    judged = judge_path(out)
    write_whole(judged, judged_items(items))
    unchecked = sum(item.prompt is None for item in items)
    return Packaged(name, metric, patch, len(items), len(leaks), unchecked, judged)


def judge_path(out: Path) -> Path:
    """Path of the items for the judge of a submission."""
    return out.with_name(f"{out.stem}_judge.txt")


def judge(
    name: str, wish: Wish, found: dict[str, Any]
) -> tuple[str, list[PromptedItem], list[int]]:
    """Metric, items and leaking items of a task that ran.

    Args:
        name: name of the task.
        wish: the request, with the metric and the number of leaks allowed.
        found: result of `harness_check.check`.

    Raises:
        TokenmartError: too few or too many samples, an unknown metric, a metric without a number,
            or too many leaks.
    """
    items = [
        PromptedItem(item["prompt"], tuple(item["answers"]), tuple(item["choices"]))
        for item in found["items"]
    ]
    if not FEWEST <= len(items) <= MOST:
        raise refused(
            name,
            f"{len(items)} samples; the rules require {FEWEST} to {MOST:,}: "
            f"{'add some' if len(items) < FEWEST else '`tokenmart e2lm curate` chooses some'}",
            "number-of-samples",
        )
    metric = _metric(name, wish.metric, found["results"])
    leaks = leaking(items)
    if len(leaks) > wish.leaks_allowed:
        shown = "; ".join(
            f"sample {at}: {items[at].answers[0].strip()!r} in {items[at].prompt!r}"[:160]
            for at in leaks[:3]
        )
        raise refused(
            name,
            f"{len(leaks)} of {len(items)} prompts contain their answer as a word ({shown}); "
            "reword them, or allow a number of them with --leaks-allowed",
            "leaks",
        )
    return metric, items, leaks


def _only_task(folder: Path) -> str:
    names = task_names(folder)
    if len(names) != 1:
        raise refused(
            folder,
            f"its YAML files define {', '.join(names) if names else 'no task'}; "
            + ("name one with --name" if names else "add `task: NAME` to one"),
            "several-tasks" if names else "no-task",
        )
    return names[0]


HEARTBEAT_SECONDS = 15


def _awaited(
    done: subprocess.Popen[str], seconds: float, name: str, say: Callable[[str], None]
) -> str:
    """The errors that a program prints until it ends; `say` is called while it runs.

    Raises:
        TokenmartError: it runs longer than `seconds`, and is ended.
    """
    started = time.monotonic()
    while True:
        passed = time.monotonic() - started
        try:
            return done.communicate(timeout=max(0.1, min(HEARTBEAT_SECONDS, seconds - passed)))[1]
        except subprocess.TimeoutExpired as error:
            if time.monotonic() - started >= seconds:
                done.kill()
                done.communicate()
                raise refused(
                    name,
                    f"the harness took over {seconds:g} s; lower --limit, or raise --seconds",
                    "too-slow",
                ) from error
            say(f"running {name} for {time.monotonic() - started:.0f} s")


def _run_harness(
    wish: Wish, clean: Path, name: str, scratch: Path, token: str, say: Callable[[str], None]
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
        done = subprocess.Popen(
            [wish.python, "-c", source, name, str(wish.limit or 0), str(out)],
            cwd=clean,
            env=kept,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError as error:
        raise refused(f"--python {wish.python}", "no such program", "no-python") from error
    stderr = _awaited(done, wish.seconds, name, say)
    if not out.is_file():
        last = (stderr.strip().splitlines() or ["no message"])[-1]
        raise refused(
            name, f"the harness ended without a result ({visible(last)[:300]})", "no-result"
        )
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if found["failed"]:
        message = visible(" ".join(str(found["error"]).split()))[:300]
        raise refused(
            name,
            f"lm-evaluation-harness {_FAILED[found['failed']]} ({message}); "
            + (
                "name with --python a Python that has the clone's own requirements; the "
                "competition's clone (0.4.9) works with transformers 4.53"
                if found["failed"] == "import"
                else "correct the task, and try it with `lm_eval --model dummy`"
            ),
            f"harness-{found['failed']}",
        )
    if not Path(found["harness"]).is_relative_to(clean.resolve()):
        raise refused(
            f"--python {wish.python}",
            f"uses {found['harness']} and not the clone; name another",
            "other-harness",
        )
    return found


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
        raise refused(
            name,
            f"{chosen} is {value!r} on the samples that were run, expected a finite number; "
            "correct the metric",
            "no-number",
        )
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
