"""Does the engine give memory back, and get by with less: refusals, and models in turn."""

from __future__ import annotations

import json
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


def models(bench: Bench, subject: Subject) -> None:
    """Extract with two models one after the other: the first one's memory must come back."""
    name, count = subject.spec.full_id, bench.size.lengths[0]
    work = 8 * forwards(subject, [count] * 3)
    if bench.fits("models", f"two of {name}, one by one", work, 60.0):
        with tempfile.TemporaryDirectory() as folder:
            _extract(bench, name, _write_problem(bench, Path(folder), subject, count), count)


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


def _extract(bench: Bench, name: str, path: Path, count: int) -> None:
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
    bench.add(
        Row("models", name, bench.dtype, count, "two models, one by one", seconds=seconds,
            tokens_per_second=outcome.tokens / seconds, peak_bytes=max(first, second),
            note=note + f"peaks {first / 2**30:.2f} and {second / 2**30:.2f} GiB")
    )  # fmt: skip


def _units(workspace: Any) -> list[Any]:
    from warehouse.store.ledger import read_units

    return [
        unit for file in sorted(workspace.tokens.rglob("*.parquet")) for unit in read_units(file)
    ]
