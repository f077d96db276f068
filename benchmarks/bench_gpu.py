"""The engine on this machine's GPU: is it right, how fast, how much memory, beside the others.

    python benchmarks/bench_gpu.py --out bench_gpu.json       # under 20 minutes, no download
    python benchmarks/bench_gpu.py --model DIR                # real weights instead of random ones
    python benchmarks/bench_gpu.py --device cpu --tiny        # a look at the table, in seconds

Weights are random, in the shapes that `no4k` publishes for Qwen2.5 0.5B and 7B. Their attention
and logits are sharpened to those of a trained model, or a wrong mask would hardly be seen. One
table is printed row by row; the JSON holds the same rows, in seconds, bytes and nats.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import baselines  # noqa: E402
from gpu_subjects import (  # noqa: E402
    Subject,
    conditions_of,
    flops_of,
    forwards,
    plain,
    random_subject,
    real_subject,
    requests_of,
    score,
    sizes,
)
from gpu_table import (  # noqa: E402
    PARTS,
    Bench,
    Part,
    Row,
    device_name,
    give_back,
    matmul_flops,
    measure,
    out_of_memory_named,
    peak_tflops,
)

FLOAT32_SHARE = 1 / 50
"""Ours in float32 must be this much nearer to the reference than plain half precision is: TF32
has 8 times bfloat16's resolution and would fail, float32 has 65,536 times."""

CHANGED = "plain, part of the context changed"

LEFT_BEHIND = 256 * 2**20
"""Bytes that may stay allocated after a run: the matrix libraries' workspaces."""


def _differences(ours: Sequence[Any], reference: Sequence[Any]) -> tuple[float, float]:
    off = np.abs(np.concatenate(ours) - np.concatenate(reference))
    return float(off.max()), float(off.mean())


def correctness(bench: Bench, subject: Subject) -> None:
    """Ours and plain half precision against the plain float32 forward, probe by probe."""
    from extract.scoring.engine import Engine

    count = bench.size.lengths[0]
    tokens = subject.tokens(count)
    half = "bfloat16" if bench.dtype == "float32" else bench.dtype
    for probe in ("full", "window", "retrieval"):
        requests = requests_of(conditions_of(bench, probe), tokens)
        work = forwards(subject, [request.length for request in requests])
        # float32 products run at a tenth of half precision's speed
        if not bench.fits("correctness", f"{subject.spec.full_id} {probe}", 14 * work):
            continue
        found: dict[tuple[str, str], Any] = {}
        told: list[str] = []
        for dtype in ("float32", half):
            with out_of_memory_named(told):
                model = subject.load(dtype)
                found[dtype, "plain"] = plain(model, requests)
                if dtype == "float32":
                    found[dtype, CHANGED] = plain(model, _disturbed(requests))
                found[dtype, "ours"] = score(Engine(model), conditions_of(bench, probe), tokens)
            model = None
            give_back(bench.device)
        reference = found.pop(("float32", "plain"), None)
        for (dtype, who), logprobs in found.items() if reference else ():
            largest, mean = _differences(logprobs, reference)
            bench.add(
                Row(
                    "correctness",
                    subject.spec.full_id,
                    dtype,
                    count,
                    f"{probe}, {who}",
                    largest_nats=largest,
                    mean_nats=mean,
                )
            )
        for note in told:
            bench.add(Row("correctness", subject.spec.full_id, "", count, probe, note=note))
        if reference and not told:
            _judge(bench, f"{subject.spec.full_id}, {probe}", found, reference, half)


def _disturbed(requests: Sequence[Any]) -> list[Any]:
    """The same requests with one token in 16 of what comes before the first target exchanged."""
    from dataclasses import replace

    changed = []
    for request in requests:
        ids, trunk = request.ids.copy(), request.trunk.copy()
        ids[: max(1, request.first_target) : 16] = ids[-1]
        trunk[::16] = ids[-1]
        changed.append(replace(request, ids=ids, trunk=trunk))
    return changed


def _judge(bench: Bench, what: str, found: Any, reference: Any, half: str) -> None:
    limit = _differences(found[half, "plain"], reference)
    exact = _differences(found["float32", "ours"], reference)
    rounded = _differences(found[half, "ours"], reference)
    bench.must(
        exact[0] <= FLOAT32_SHARE * limit[0],
        f"{what}: in float32 ours is {exact[0]:.1e} nats off, plain {half} {limit[0]:.1e}",
    )
    bench.must(
        rounded[1] <= 1.5 * limit[1],
        f"{what}: in {half} ours is {rounded[1]:.1e} nats off on average, plain {limit[1]:.1e}",
    )


def predicted(bench: Bench, subject: Subject, count: int, conditions: Sequence[Any]) -> int:
    """Bytes that the product's own plan foresees."""
    from extract.planning.memory import footprint
    from extract.scoring.budgets import BRANCH_TOKENS

    branches = any(condition.kind.branches for condition in conditions)
    return footprint(
        subject.spec,
        subject.size,
        dtype=bench.dtype,
        device=bench.device,
        longest=count,
        branch_tokens=BRANCH_TOKENS if branches else 0,
    ).total


def speed(bench: Bench, subject: Subject, count: int) -> None:
    """Ours for each probe and for all, and what others take for the same answers."""
    from extract.planning.cost import work_of
    from extract.planning.memory import available_memory
    from extract.scoring.engine import Engine

    tokens = subject.tokens(count)
    sets = {
        "full": conditions_of(bench, "full"),
        "window": conditions_of(bench, "window"),
        "full + window": conditions_of(bench, "full", "window"),
        "retrieval": conditions_of(bench, "retrieval"),
        "all probes": conditions_of(bench, "full", "window", "retrieval"),
    }
    cost = {name: work_of([count], conditions) for name, conditions in sets.items()}
    flops = {
        name: flops_of(subject, work.tokens, work.rows, work.pairs) for name, work in cost.items()
    }
    calls = 1 + bench.size.repeats
    # beside ours: two forwards, the LongPPL procedure, and two forwards for retrieval
    total = calls * (sum(flops.values()) + flops["full + window"] + 4 * forwards(subject, [count]))
    if not bench.fits("speed", f"{subject.spec.full_id}, {count:,} tokens", total, 20.0):
        return
    there = available_memory(bench.device)
    if predicted(bench, subject, count, sets["all probes"]) > there:
        note = f"does not fit into {there / 2**30:.0f} GiB; not tried"
        needed = predicted(bench, subject, count, sets["all probes"])
        bench.add(
            Row("speed", subject.spec.full_id, bench.dtype, count, "all probes",
                predicted_bytes=needed, note=note)
        )  # fmt: skip
        return
    peak = peak_tflops(device_name(bench.device)) if bench.dtype != "float32" else None
    unknown = "" if peak or not bench.on_gpu else "unknown device or dtype: no share of a peak"
    ours: dict[str, float] = {}

    def timed(
        what: str, work: Callable[[], Any], read: int, spent: float, answers: str = "",
        needed: int | None = None, note: str = "", scale: float = 1.0,
    ) -> float | None:  # fmt: skip
        told: list[str] = []
        seconds, peak_bytes, found = None, None, None
        with out_of_memory_named(told):
            found = measure(work, bench.device, bench.size.repeats)
        give_back(bench.device)
        if found is not None:
            seconds, peak_bytes = found[0] * scale, found[1]
        bench.add(
            Row(
                "speed", subject.spec.full_id, bench.dtype, count, what,
                seconds=seconds,
                tokens_per_second=read / seconds if seconds else None,
                share_of_peak=spent / seconds / peak / 1e12 if seconds and peak else None,
                times_ours=seconds / ours[answers] if seconds and answers in ours else None,
                predicted_bytes=needed,
                peak_bytes=peak_bytes,
                note="; ".join(filter(None, [*told, note])),
            )
        )  # fmt: skip
        return seconds

    model = subject.load(bench.dtype)
    engine = Engine(model)
    for name, conditions in sets.items():
        seconds = timed(
            f"ours: {name}", lambda c=conditions: score(engine, c, tokens),  # type: ignore[misc]
            cost[name].tokens, flops[name], needed=predicted(bench, subject, count, conditions),
            note="; ".join(filter(None, [str(engine.attention), unknown])),
        )  # fmt: skip
        if seconds is not None:
            ours[name] = seconds
    # the engine may change the model it is given
    engine = model = None
    give_back(bench.device)
    model = subject.load(bench.dtype)
    once = forwards(subject, [count])
    timed("plain forward, all logits", baselines.all_logits(model, tokens), count, once, "full")
    timed(
        "plain forward, head in chunks", baselines.chunked_head(model, tokens), count, once, "full"
    )
    windows = [len(request.ids) for request in requests_of(sets["window"], tokens)]
    timed(
        "LongPPL procedure", baselines.longppl_procedure(model, tokens, *bench.size.window),
        count + sum(windows), once + forwards(subject, windows), "full + window",
    )  # fmt: skip
    asked = requests_of(sets["retrieval"], tokens)
    whole = [(np.concatenate([r.trunk[: r.prefix_length], r.ids]), len(r.targets)) for r in asked]
    # two of each kind stand for all
    some = [*whole[:2], *whole[-2:]]
    timed(
        "a forward for each excerpt", baselines.last_logits(model, some),
        sum(len(text) for text, _ in whole),
        sum(flops_of(subject, len(text), rows, len(text) ** 2 / 2) for text, rows in whole),
        "retrieval", note=f"{len(some)} of {len(whole)} measured", scale=len(whole) / len(some),
    )  # fmt: skip
    if baselines.installed("lm_eval"):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = subject.tokenizer or tiny_tokenizer(Path(folder))
            timed(
                "lm-evaluation-harness, loglikelihood",
                baselines.harness_loglikelihood(model, tokenizer, tokens), count, once, "full",
            )  # fmt: skip
    else:
        _absent(bench, subject, count, "lm-evaluation-harness, loglikelihood")
    config, architecture = model.config, type(model).__name__
    model = None
    give_back(bench.device)
    if not baselines.installed("vllm"):
        _absent(bench, subject, count, "vLLM, prompt log-probs")
    elif bench.on_gpu and bench.fits("speed", "vLLM", 0.0, 120.0):
        _vllm(bench, subject, tokens, config, architecture, ours.get("full"))


def _absent(bench: Bench, subject: Subject, count: int, what: str) -> None:
    bench.add(Row("speed", subject.spec.full_id, bench.dtype, count, what, note="not installed"))


def _vllm(
    bench: Bench, subject: Subject, tokens: Any, config: Any, architecture: str, ours: float | None
) -> None:
    what, count = "vLLM, prompt log-probs", len(tokens)
    seconds, note = None, "weights of its own making"
    with tempfile.TemporaryDirectory() as folder:
        config.architectures = [architecture]
        config.save_pretrained(folder)
        left = bench.until - time.monotonic()
        try:
            found = baselines.vllm_prompt_logprobs(Path(folder), tokens, bench.dtype, left)
            seconds = found["seconds"]
        except baselines.ForeignError as error:
            note = str(error)[:120]
    bench.add(
        Row("speed", subject.spec.full_id, bench.dtype, count, what, seconds=seconds,
            tokens_per_second=count / seconds if seconds else None,
            times_ours=seconds / ours if seconds and ours else None, note=note)
    )  # fmt: skip


def tiny_tokenizer(folder: Path) -> Any:
    """A small trained tokenizer, for those who ask for one beside tokens."""
    from tiny_models import make_tokenizer
    from transformers import AutoTokenizer

    make_tokenizer(folder, bos=True)
    return AutoTokenizer.from_pretrained(folder)


def memory(bench: Bench, subject: Subject) -> None:
    """Take most of the memory away while windows are scored: the engine must get by with less.

    Only PyTorch's allocator of a GPU can be told to refuse; for a processor there is no such
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
    off = _differences(squeezed or again, expected)
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
    from extract.planning.plan import documents_of, select
    from extract.run import Extraction
    from warehouse.paths import Workspace
    from warehouse.problem.spec import load_problem
    from warehouse.progress import no_progress
    from warehouse.sources.fetch import ensure_documents

    root = path.parent
    workspace = Workspace(root, root / "one", root / "one.duckdb")
    problem = load_problem(str(path), workspace)
    selection = select(problem, device=bench.device, dtype=bench.dtype)
    documents = documents_of(ensure_documents(problem, workspace), None)
    before = give_back(bench.device)
    started = time.perf_counter()
    outcome = Extraction(problem, selection, documents, workspace, no_progress).run()
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


@click.command()
@click.option("--device", default="auto", show_default=True, help="Measure on this device.")
@click.option(
    "--dtype",
    default="auto",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    show_default=True,
    help="Compute in this type; auto takes what `tokenmart extract` takes on the device.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure this folder of safetensors weights instead of random ones; repeatable.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Measure only this part; repeatable.",
)
@click.option("--tiny", is_flag=True, help="Take tiny shapes and texts, to see that all runs.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="Begin nothing that would end later than this; what is left out is named at the end.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows as JSON here."
)
def main(
    device: str,
    dtype: str,
    models: tuple[Path, ...],
    parts: tuple[Part, ...],
    tiny: bool,
    minutes: float,
    out: Path | None,
) -> None:
    """Measure the extraction engine on this machine's GPU, without a download.

    Five parts, in this order. `correctness` compares each probe with the plain forward of the
    same model: the reference is float32; in float32 ours must be far nearer to it than plain
    half precision is, in half precision as near; beside it stands what other tokens in the
    context do, which is what a wrong mask would look like. `memory` takes half of the memory away
    while windows are scored. `models` extracts with two models one after the other and looks
    whether the first one's memory came back; `workers` does the same with two processes. `speed`
    times each probe at 8,192 and 32,768 tokens beside plain forwards, the LongPPL procedure and,
    where they are installed, lm-evaluation-harness and vLLM, with the same dtype and attention.

    The share of the peak counts 2 FLOPs per weight and token and those of attention, over the
    data sheet's dense half-precision figure. Memory is what the plan of `tokenmart extract`
    predicts, and the most that PyTorch held, weights included.

    Ends with exit code 1 when something measured is wrong: a difference too large, memory that
    did not come back, a run that failed.

    \b
    python benchmarks/bench_gpu.py --out bench_gpu.json
    python benchmarks/bench_gpu.py --part speed --model path/to/Qwen2.5-7B-Instruct
    """
    started = time.monotonic()
    from transformers.utils import logging

    from extract.planning.devices import resolve_device, resolve_dtype
    from extract.scoring.placement import exact_float32

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    exact_float32()
    size, shapes = sizes(tiny)
    place = resolve_device(device)
    place = "cuda:0" if place in ("cuda", "auto-map") else place
    subjects = [real_subject(folder, place) for folder in models] or [
        random_subject(name, shape, count, place) for name, (shape, count) in shapes.items()
    ]
    bench = Bench(
        device=place,
        dtype=resolve_dtype(subjects[0].spec, dtype, place),
        size=size,
        until=started + 60 * minutes,
        out=out,
        chosen=parts or PARTS,
    )
    bench.flops = matmul_flops(place, bench.dtype)
    known = peak_tflops(device_name(place))
    click.echo(
        f"{device_name(place)}: {bench.flops / 1e12:.1f} TFLOP/s in one product, data sheet "
        f"{known if known else 'unknown'}; {bench.dtype}; torch {version('torch')}, transformers "
        f"{version('transformers')}\n"
    )
    bench.head()
    first, *others = subjects
    name = next(iter(shapes))
    small = random_subject(name, *shapes[name], place)
    bench.run("correctness", lambda: correctness(bench, first))
    bench.run("memory", lambda: memory(bench, first))
    bench.run("models and workers", lambda: extractions(bench, small))
    for subject in subjects:
        for count in size.lengths:
            bench.run("speed", partial(speed, bench, subject, count))
    for subject in others:
        bench.run("correctness", partial(correctness, bench, subject))
    bench.write()
    for left_out in bench.skipped:
        click.echo(f"left out for its time: {left_out}")
    for wrong in bench.wrong:
        click.echo(f"wrong: {wrong}", err=True)
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
