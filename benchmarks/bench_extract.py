"""The extraction engine against the bare model, the LongPPL procedure and lm-evaluation-harness.

Everything is a ratio measured in one run, on the real checkpoints of minilong, in float32 on
the processor. Each measurement is a process of its own, so that memory peaks don't mix.

    python benchmarks/bench_extract.py            # all parts, about half an hour on 2 cores
    python benchmarks/bench_extract.py a e        # some parts
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from baselines import bare_forward, harness_rolling, longppl_procedure

MODELS = ("smollm2-135m", "gemma3-270m")
CONTEXT, STRIDE = 1024, 512

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))


def peak_reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> int:
    """VmHWM (peak since the last reset) or VmRSS of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def setup(name: str) -> tuple[Any, Any, Any]:
    """A real model in float32, its tokenizer and the tokens of a long real document."""
    from extract.checkpoints import find_checkpoint
    from extract.scoring.loading import load_model
    from extract.tokenization import load_tokenizer
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.sources.fetch import ensure_documents

    workspace = find_workspace(Path(__file__))
    problem = load_problem("minilong", workspace)
    spec = problem.model(name)
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    tokenizer = load_tokenizer(checkpoint, spec)
    texts = ensure_documents(problem, workspace)["text"].to_pylist()
    tokens = tokenizer.encode(max(texts, key=len)).ids
    return load_model(checkpoint, spec, device="cpu", dtype="float32"), tokenizer, tokens


def measure(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Best wall-clock of `repeats`, and the peak memory above what was there before."""
    seconds, above = [], 0
    for _ in range(repeats):
        before = memory("VmRSS")
        peak_reset()
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
        above = max(above, memory("VmHWM") - before)
    return {"seconds": min(seconds), "bytes": float(above)}


def one(case: str, name: str, size: int, extra: int, repeats: int) -> dict[str, float]:
    """One measurement; runs in a process of its own."""
    import numpy as np
    from readings import reading_of

    from extract.scoring.engine import Engine
    from warehouse.probes.full import full_requests
    from warehouse.probes.retrieval import (
        WITH_DOCUMENT,
        WITHOUT_DOCUMENT,
        RetrievalProbe,
        retrieval_requests,
    )
    from warehouse.probes.window import window_requests

    model, tokenizer, tokens = setup(name)
    bos = tokenizer.bos
    tokens = tokens[: size - (bos is not None)]
    (full,) = full_requests(tokens, bos)
    if case == "bare":
        return measure(bare_forward(model, full.ids), repeats)
    if case == "longppl":
        return measure(longppl_procedure(model, full.ids, CONTEXT, STRIDE), repeats)
    if case == "harness":
        text = tokenizer._tokenizer.decode(tokens)
        model.config.max_position_embeddings = size + 1
        return measure(harness_rolling(model, tokenizer._tokenizer, text), repeats)
    reference = (
        longppl_procedure(model, full.ids, CONTEXT, STRIDE)()
        if case == "ours-longppl" and extra
        else None
    )
    engine = Engine(model)
    requests = [full]
    if case == "ours-longppl":
        requests += window_requests(tokens, bos, context=CONTEXT, stride=STRIDE)
    elif case == "ours-retrieval":
        probe = RetrievalProbe(
            kind="retrieval", excerpts=extra, excerpt_tokens=48, answer_tokens=32, min_gap=512
        )
        reading = reading_of(tokens, bos)
        for kind in (WITH_DOCUMENT, WITHOUT_DOCUMENT):
            requests += retrieval_requests(reading, kind=kind, probe=probe)
    result = measure(lambda: engine.score(requests), repeats)
    if reference is not None:
        ours = [scored.scores.logprob for scored in engine.score(requests)]
        plain = [reference[0], *reference[1]]
        result["nats"] = max(
            float(np.abs(a + b.numpy()).max()) for a, b in zip(ours, plain, strict=True)
        )
    return result


def run(case: str, name: str, size: int, extra: int = 0, repeats: int = 2) -> dict[str, float]:
    """`one`, in a fresh process."""
    arguments = [case, name, str(size), str(extra), str(repeats)]
    done = subprocess.run(
        [sys.executable, __file__, "--one", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    row(*cells)
    row(*["---"] * len(cells))


def part_a() -> None:
    print("\n(a) `full` probe against the bare forward with all logits, 2,048 tokens\n")
    head("model", "bare, s", "ours, s", "ratio (goal ≤ 1.05)")
    for name in MODELS:
        bare, ours = (run(case, name, 2048, repeats=3)["seconds"] for case in ("bare", "ours"))
        row(name, f"{bare:.2f}", f"{ours:.2f}", f"**{ours / bare:.2f}**")


def part_b() -> None:
    print(f"\n(b) LongPPL: 4,096 tokens, L = {CONTEXT}, s = {STRIDE}\n")
    head(
        "model", "procedure, s", "ours, s", "ratio (goal ≤ 0.7 / 0.55)", "largest difference, nats"
    )
    for name in MODELS:
        plain = run("longppl", name, 4096, repeats=1)["seconds"]
        ours = run("ours-longppl", name, 4096, repeats=1)["seconds"]
        nats = run("ours-longppl", name, 2560, extra=1, repeats=1)["nats"]
        row(name, f"{plain:.1f}", f"{ours:.1f}", f"**{ours / plain:.2f}**", f"{nats:.1e}")


def part_c() -> None:
    print("\n(c) lm-evaluation-harness `loglikelihood_rolling`, 2,048 tokens\n")
    head("model", "harness, s", "ours, s", "ratio (goal ≤ 1.0)")
    for name in MODELS:
        theirs, ours = (run(case, name, 2048)["seconds"] for case in ("harness", "ours"))
        row(name, f"{theirs:.2f}", f"{ours:.2f}", f"**{ours / theirs:.2f}**")


def part_d() -> None:
    print("\n(d) `full` + `retrieval` with k excerpts (48 + 32 tokens), smollm2-135m\n")
    head("tokens", "k = 1, s", "k = 4, s", "k = 16, s", "k = 16 / k = 1 (goal ≤ 1.35)")
    for size in (4096, 8192):
        times = [run("ours-retrieval", MODELS[0], size, k, 1)["seconds"] for k in (1, 4, 16)]
        row(f"{size:,}", *(f"{t:.1f}" for t in times), f"**{times[2] / times[0]:.2f}**")


def part_e() -> None:
    print("\n(e, f) peak memory above the loaded model, and time, by length and vocabulary\n")
    head("model", "tokens", "full logits, MB", "ours, MB", "ratio (goal ≤ 0.2)", "ours, s")
    for name in MODELS:
        for size in (2048, 4096, 8192):
            plain, ours = (run(case, name, size, repeats=1) for case in ("bare", "ours"))
            ratio = ours["bytes"] / plain["bytes"]
            cells = (f"{plain['bytes'] / 1e6:,.0f}", f"{ours['bytes'] / 1e6:,.0f}")
            row(name, f"{size:,}", *cells, f"**{ratio:.2f}**", f"{ours['seconds']:.1f}")


def part_g() -> None:
    import pyarrow.parquet as pq

    from warehouse.paths import find_workspace

    documents = 8
    print(
        f"\n(g) bytes per row of published files, all columns, footer and ledger included "
        f"({documents} documents of 4,096 tokens, both models)\n"
    )
    head("condition", "rows", "bytes per row (goal ≤ 10)")
    workspace = find_workspace(Path(__file__))
    sizes: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        (data / "cache").symlink_to(workspace.cache)
        shutil.copytree(workspace.data / "documents", data / "documents")
        command = [sys.executable, "-m", "tokenmart", "extract", "--problem", "minilong"]
        command += ["--documents", str(documents)]
        for name in MODELS:
            command += ["--model", name]
        subprocess.run(
            command, cwd=workspace.root, env={**os.environ, "TOKENMART_DATA": folder},
            check=True, stdout=sys.stderr,
        )  # fmt: skip
        for path in (data / "tokens").glob("problem=minilong/*/*/tokens.parquet"):
            size = sizes.setdefault(path.parent.name.removeprefix("condition="), [0, 0])
            size[0] += pq.read_metadata(path).num_rows
            size[1] += path.stat().st_size
    sizes["all"] = [sum(column) for column in zip(*sizes.values(), strict=True)]
    for name, (rows, size) in sorted(sizes.items()):
        row(name, f"{rows:,}", f"**{size / rows:.2f}**")


PARTS = {"a": part_a, "b": part_b, "c": part_c, "d": part_d, "e": part_e, "g": part_g}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        case, name, *numbers = sys.argv[2:]
        print(json.dumps(one(case, name, *map(int, numbers))))
    else:
        for letter in sys.argv[1:] or PARTS:
            PARTS[letter]()
