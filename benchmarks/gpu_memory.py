"""Does the engine give memory back, and get by with less: refusals, models in turn, workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from gpu_correctness import differences
from gpu_subjects import Subject, conditions_of, forwards, requests_of, score
from gpu_table import Bench, Row, give_back, measure, out_of_memory_named

ROOT = Path(__file__).parents[1]

LEFT_BEHIND = 256 * 2**20
"""Bytes that may stay allocated after a run: the matrix libraries' workspaces."""


def memory(bench: Bench, subject: Subject) -> None:
    """Take most of the memory away while windows are scored: the engine must get by with less.

    Only PyTorch's allocator of a GPU can be set to refuse; for a processor there is no such
    limit, and none is made up.
    """
    import torch

    from extract.scoring.engine import Engine

    count = bench.size.lengths[0]
    name = subject.spec.full_id
    conditions, tokens = conditions_of(bench, "window"), subject.tokens(count)
    work = forwards(subject, [r.length for r in requests_of(conditions, tokens)])
    if not bench.fits("memory", f"{name}: forced out-of-memory", 8 * work):
        return
    what = "windows at half the memory beside the weights"
    if not bench.on_gpu:
        note = "skipped: PyTorch can't limit a processor's memory"
        bench.add(Row("memory", name, bench.dtype, count, what, note=note))
        return
    told: list[str] = []
    engine = Engine(subject.load(bench.dtype))
    expected = score(engine, conditions, tokens)
    _, peak = measure(lambda: score(engine, conditions, tokens), bench.device, 0)
    allocated = give_back(bench.device)
    limit = allocated + (peak - allocated) // 2
    total = torch.cuda.get_device_properties(bench.device).total_memory
    squeezed, bytes_then = None, None
    started = time.perf_counter()
    try:
        torch.cuda.set_per_process_memory_fraction(limit / total, bench.device)
        torch.cuda.reset_peak_memory_stats(bench.device)
        with out_of_memory_named(told):
            squeezed = score(engine, conditions, tokens)
        bytes_then = int(torch.cuda.max_memory_allocated(bench.device))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, bench.device)
    seconds = time.perf_counter() - started
    after = give_back(bench.device)
    again = score(engine, conditions, tokens)
    off = differences(squeezed or again, expected)
    ending = "went on" if squeezed else f"gave up: {told[0]}"
    note = f"limit {limit / 2**30:.2f} GiB, before {peak / 2**30:.2f}; {ending}"
    bench.add(
        Row("memory", name, bench.dtype, count, what, seconds=seconds, peak_bytes=bytes_then,
            largest_nats=off[0], mean_nats=off[1], note=note)
    )  # fmt: skip
    bench.must(after <= allocated + LEFT_BEHIND, f"{name}: memory stays taken after a refusal")


def extractions(bench: Bench, subject: Subject) -> None:
    """Two models one after the other in this process, then the same by two workers."""
    name, count = subject.spec.full_id, bench.size.lengths[0]
    wanted = [part for part in ("models", "workers") if part in bench.chosen]
    work = 8 * forwards(subject, [count] * 3)
    if not wanted or not bench.fits(wanted[0], f"two of {name}, one by one", work, 60.0):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = _write_problem(bench, Path(folder), subject, count)
        one_by_one = _in_this_process(bench, name, path, count)
        if bench.fits("workers", f"two of {name} by two workers", work, 60.0):
            _two_workers(bench, name, path, count, one_by_one)


def _write_problem(bench: Bench, root: Path, subject: Subject, count: int) -> Path:
    """A checkout of its own: two checkpoints, four documents, a problem that asks all probes."""
    from tiny_models import make_text, make_tokenizer

    (root / "dbt_project").mkdir()
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    models = []
    for seed in range(2):
        folder = root / f"model-{seed}"
        make_tokenizer(folder, bos=True)
        subject.load(bench.dtype, seed).save_pretrained(folder)
        give_back(bench.device)
        source = {"kind": "local", "path": str(folder)}
        models.append({"full_id": f"random/{seed}", "family": "random", "source": source})
    texts = [make_text(seed, 2 * count) for seed in range(4)]
    (root / "corpus.json").write_text(json.dumps(texts))
    problem = {
        "name": "bench",
        "title": "Two random models",
        "documents": {
            "kind": "json", "path": str(root / "corpus.json"), "max_tokens": count,
        },
        "models": models,
        "probes": [probe.model_dump(exclude_none=True) for probe in bench.size.probes],
        "target": {"kind": "file", "path": "target.json"},
    }  # fmt: skip
    path = root / "bench.yml"
    path.write_text(yaml.safe_dump(problem))
    return path


def _in_this_process(bench: Bench, name: str, path: Path, count: int) -> tuple[float, list[Any]]:
    from extract.extraction import Extraction
    from extract.planning.plan import documents_of
    from extract.planning.selection import select
    from warehouse.paths import Workspace
    from warehouse.problem.spec import load_problem
    from warehouse.problem.tables import ensure_documents
    from warehouse.progress import no_progress

    root = path.parent
    workspace = Workspace(root, root / "one", root / "one.duckdb")
    problem = load_problem(str(path), workspace)
    selection = select(problem, workspace, device=bench.device, dtype=bench.dtype)
    documents = documents_of(ensure_documents(problem, workspace), None)
    before = give_back(bench.device)
    started = time.perf_counter()
    outcome = Extraction(selection, documents, no_progress).run()
    seconds = time.perf_counter() - started
    after = give_back(bench.device)
    bench.must(not outcome.failures, "; ".join(map(str, outcome.failures)))
    units = _units(workspace)
    first, second = (
        max((unit.peak_bytes for unit in units if unit.model_id.endswith(str(n))), default=0)
        for n in range(2)
    )
    if bench.on_gpu:
        note = f"allocated before {before / 2**30:.2f}, after {after / 2**30:.2f} GiB; "
        bench.must(after <= before + LEFT_BEHIND, "the memory of two models is not given back")
        bench.must(second <= 1.1 * first + LEFT_BEHIND, "the second model finds less memory")
    else:
        note = "a processor's peaks are those of the process; "
    if "models" in bench.chosen:
        bench.add(
            Row("models", name, bench.dtype, count, "two models, one by one", seconds=seconds,
                tokens_per_second=outcome.tokens / seconds, peak_bytes=max(first, second),
                note=note + f"peaks {first / 2**30:.2f} and {second / 2**30:.2f} GiB")
        )  # fmt: skip
    return seconds, units


def _units(workspace: Any) -> list[Any]:
    from warehouse.store.ledger import read_units

    return [
        unit for file in sorted(workspace.tokens.rglob("*.parquet")) for unit in read_units(file)
    ]


def _two_workers(
    bench: Bench, name: str, path: Path, count: int, alone: tuple[float, list[Any]]
) -> None:
    import torch

    from warehouse.paths import Workspace

    root = path.parent
    workspace = Workspace(root, root / "two", root / "two.duckdb")
    workspace.data.mkdir()
    # one GPU each where there are several
    device = "cuda" if bench.on_gpu and torch.cuda.device_count() > 1 else bench.device
    command = [
        *(sys.executable, "-m", "tokenmart", "extract", "--problem", str(path), "--workers", "2"),
        *("--device", device, "--dtype", bench.dtype),
    ]
    inherited = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, **workspace.environment(), "PYTHONPATH": inherited},
    )  # fmt: skip
    seconds = time.perf_counter() - started
    units = _units(workspace)
    lines = done.stderr.strip().splitlines()
    if done.returncode or len(units) != len(alone[1]):
        bench.must(False, f"two workers: exit {done.returncode}: {lines[-1] if lines else ''}")
    wanted = {(u.model_id, u.condition, u.doc_id): u.content_sha256 for u in alone[1]}
    equal = sum(wanted.get((u.model_id, u.condition, u.doc_id)) == u.content_sha256 for u in units)
    bench.add(
        Row("workers", name, bench.dtype, count, "the same by two workers", seconds=seconds,
            times_ours=seconds / alone[0],
            note=f"start of processes included; {equal} of {len(wanted)} units equal to the bit")
    )  # fmt: skip
