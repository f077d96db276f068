"""A whole extraction with two models: how long the GPU waits before, between and within them."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from gpu_correctness import LEFT_BEHIND
from gpu_subjects import Subject
from gpu_table import Bench, Row
from tiny_models import make_text, make_tokenizer

from extract.extraction import Extraction
from extract.planning.documents import documents_of
from extract.planning.selection import select
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents

DOCUMENTS = 8
SHARD = "4GB"
"""Files of a checkpoint are of the size in which Qwen2.5-7B is published: they are hashed side by
side."""
STEPS = ("looking for its files", "tokenizing", "loading", "checking")
"""What an extraction says that it does before a model's first document."""

Span = tuple[str, float, float]
"""A model, and when the engine began and ended to compute conditions of one of its documents."""


def extraction(bench: Bench, *subjects: Subject) -> None:
    """Extract with these models from local files.

    Three figures: seconds from the start to the first document, seconds between the models, and
    of the time from the first to the last document of each model the share in which its engine
    computed.
    """
    spans: list[Span] = []
    steps: list[tuple[float, str]] = []

    class Timed(Extraction):
        def _score_conditions(self, job: Any, together: Any) -> Any:
            began = time.perf_counter()
            try:
                return super()._score_conditions(job, together)
            finally:
                spans.append((job.plan.spec.full_id, began, time.perf_counter()))

    def record_step(what: str, units: int, computed: bool = True) -> None:
        steps.append((time.perf_counter(), what))

    count = bench.lengths[-1]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        workspace = Workspace(root, root / "one", root / "one.duckdb")
        problem = load_problem(str(_write_problem(bench, root, subjects, count)), workspace)
        selection = select(
            problem, workspace, device=bench.device, dtype=bench.dtype, fused=bench.fused
        )
        documents = documents_of(ensure_documents(problem, workspace), None)
        before = bench.give_back()
        started = time.perf_counter()
        outcome = Timed(selection, documents, record_step).run()
        seconds = time.perf_counter() - started
        after = bench.give_back()
    bench.must(not outcome.failures, "; ".join(map(str, outcome.failures)))
    back = after <= before + LEFT_BEHIND
    bench.must(back, "the memory of two models is not given back")
    for row in rows_of(spans, started, bench.dtype, count):
        bench.add(replace(row, note=f"{row.note}; {seconds_of(steps, row.model)}"))
    bench.add(
        Row("extraction", "both", bench.dtype, count, f"{DOCUMENTS} documents", seconds=seconds,
            tokens_per_second=outcome.tokens / seconds,
            note=f"allocated before {before / 2**30:.2f}, after {after / 2**30:.2f} GiB")
    )  # fmt: skip


def _write_problem(bench: Bench, root: Path, subjects: tuple[Subject, ...], count: int) -> Path:
    """A checkout of its own: checkpoints, documents, a problem that asks all probes."""
    (root / "dbt_project").mkdir()
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    models = []
    for number, subject in enumerate(subjects):
        folder = root / f"model-{number}"
        make_tokenizer(folder, bos=True)
        subject.load(bench.dtype, number).save_pretrained(folder, max_shard_size=SHARD)
        bench.give_back()
        source = {"kind": "local", "path": str(folder)}
        models.append({"full_id": f"{subject}-{number}", "family": "random", "source": source})
    texts = [make_text(seed, 2 * count) for seed in range(DOCUMENTS)]
    (root / "corpus.json").write_text(json.dumps(texts))
    problem = {
        "name": "bench",
        "title": "Two random models",
        "documents": {
            "kind": "json", "path": str(root / "corpus.json"), "max_tokens": count,
        },
        "models": models,
        "probes": [probe.model_dump(exclude_none=True) for probe in bench.probes],
        "target": {"kind": "file", "path": "target.json"},
    }  # fmt: skip
    path = root / "bench.yml"
    path.write_text(yaml.safe_dump(problem))
    return path


def seconds_of(steps: list[tuple[float, str]], model: str) -> str:
    """Seconds of the steps of a model before its first document, from when each began."""
    parts = []
    for (began, step), (ended, _) in pairwise(steps):
        name, _, what = step.partition(": ")
        if name == model and what in STEPS:
            parts.append(f"{what} {ended - began:.1f} s")
    return ", ".join(parts)


def rows_of(spans: list[Span], started: float, dtype: str, count: int) -> list[Row]:
    """What the GPU waited for, from the times in which it computed, in their order."""
    rows: list[Row] = []
    ended = started
    for model in dict.fromkeys(name for name, _, _ in spans):
        mine = [(begin, end) for name, begin, end in spans if name == model]
        first, last = mine[0][0], mine[-1][1]
        busy = sum(end - begin for begin, end in mine) / (last - first)
        later = [end - begin for begin, end in mine[1:]] or [0.0]
        waits = sum(after[0] - end for (_, end), after in pairwise(mine))
        rows.append(
            Row("extraction", model, dtype, count, "before its first document",
                seconds=first - ended,
                note=f"then the engine computed for {busy:.0%} of {last - first:.1f} s, and "
                f"{waits:.1f} s went by between documents; its first call took "
                f"{mine[0][1] - first:.1f} s, the others {median(later):.1f} s each")
        )  # fmt: skip
        ended = last
    return rows
