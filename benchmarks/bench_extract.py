"""The extraction engine against the bare model, the LongPPL procedure and lm-evaluation-harness.

Everything is a ratio measured in one run, on the real checkpoints of minilong, in float32 on
the processor. Each measurement is a process of its own, so that memory peaks don't mix.

    python benchmarks/bench_extract.py                       # about half an hour on 2 cores
    python benchmarks/bench_extract.py --part full --part memory

A part is written to the output and printed as a table as soon as it is measured, with the machine's
load before it: with more than a few tenths its seconds mean little.
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

import click
from baselines import bare_forward, harness_rolling, longppl_procedure
from marked_tables import machine, table

from warehouse.files import write_whole

MODELS = ("smollm2-135m", "gemma3-270m")
CONTEXT, STRIDE = 1024, 512
"""Of LongPPL's short context, in tokens."""
Figures = dict[str, Any]
OUTPUT = Path(__file__).with_name("extract.json")
PACKAGES = ("torch", "transformers", "lm_eval")

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))


def peak_reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> int:
    """VmHWM (peak since the last reset) or VmRSS of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def setup(name: str) -> tuple[Any, Any, Any]:
    """A real model in float32, its tokenizer and the tokens of a long real document."""
    from extract.backends.backend import Loading
    from extract.checkpoints import find_checkpoint
    from extract.models.loading import load_model
    from extract.tokenization import load_tokenizer
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.problem.tables import ensure_documents

    workspace = find_workspace(Path(__file__))
    problem = load_problem("minilong", workspace)
    spec = problem.model(name)
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    tokenizer = load_tokenizer(checkpoint, spec)
    texts = ensure_documents(problem, workspace)["text"].to_pylist()
    tokens = tokenizer.encode(max(texts, key=len)).ids
    return load_model(Loading(spec, checkpoint, "cpu", "float32")), tokenizer, tokens


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


def measure_one(case: str, name: str, size: int, extra: int, repeats: int) -> dict[str, float]:
    """One measurement; runs in a process of its own."""
    import numpy as np
    from readings import reading_of

    from extract.scoring.engine import Engine
    from warehouse.probes.context import full_requests, window_requests
    from warehouse.probes.lookup import (
        WITH_DOCUMENT,
        WITHOUT_DOCUMENT,
        RetrievalProbe,
        retrieval_requests,
    )

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
    """`measure_one`, in a fresh process."""
    arguments = [case, name, str(size), str(extra), str(repeats)]
    done = subprocess.run(
        [sys.executable, __file__, "--one", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def full() -> list[Figures]:
    """The `full` probe and the bare forward with all logits."""
    found = []
    for name in MODELS:
        bare, ours = (run(case, name, 2048, repeats=3)["seconds"] for case in ("bare", "ours"))
        found.append({"model": name, "other": bare, "ours": ours, "ratio": ours / bare})
    return found


def longppl() -> list[Figures]:
    """LongPPL's two passes and the published procedure; differences on fewer tokens."""
    found = []
    for name in MODELS:
        theirs, ours = (
            run(case, name, 4096, repeats=1)["seconds"] for case in ("longppl", "ours-longppl")
        )
        nats = run("ours-longppl", name, 2560, extra=1, repeats=1)["nats"]
        row = {"model": name, "other": theirs, "ours": ours, "ratio": ours / theirs}
        found.append({**row, "nats": nats})
    return found


def harness() -> list[Figures]:
    """The `full` probe and lm-evaluation-harness's rolling log-likelihood."""
    found = []
    for name in MODELS:
        theirs, ours = (run(case, name, 2048)["seconds"] for case in ("harness", "ours"))
        found.append({"model": name, "other": theirs, "ours": ours, "ratio": ours / theirs})
    return found


def retrieval() -> list[Figures]:
    """`full` and `retrieval` with more and more excerpts."""
    found = []
    for size in (4096, 8192):
        one, four, most = (
            run("ours-retrieval", MODELS[0], size, count, 1)["seconds"] for count in (1, 4, 16)
        )
        found.append({"tokens": size, "k1": one, "k4": four, "k16": most, "ratio": most / one})
    return found


def peaks() -> list[Figures]:
    """Peak memory by length and vocabulary."""
    found = []
    for name in MODELS:
        for size in (2048, 4096, 8192):
            plain, ours = (run(case, name, size, repeats=1) for case in ("bare", "ours"))
            found.append({"model": name, "tokens": size, "other": plain["bytes"] / 1e6,
                          "ours": ours["bytes"] / 1e6, "ratio": ours["bytes"] / plain["bytes"],
                          "seconds": ours["seconds"]})  # fmt: skip
    return found


def stored() -> list[Figures]:
    """Rows and bytes of published files, by condition and in all."""
    import pyarrow.parquet as pq

    from warehouse.paths import find_workspace

    workspace = find_workspace(Path(__file__))
    sizes: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        (data / "cache").symlink_to(workspace.cache)
        shutil.copytree(workspace.data / "documents", data / "documents")
        command = [sys.executable, "-m", "tokenmart", "extract", "--problem", "minilong"]
        command += ["--documents", "8"]
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
    return [{"condition": name, "rows": rows, "bytes": size, "each": size / rows}
            for name, (rows, size) in sorted(sizes.items())]  # fmt: skip


PARTS = {
    "full": full, "longppl": longppl, "harness": harness, "retrieval": retrieval,
    "memory": peaks, "bytes": stored,
}  # fmt: skip

COLUMNS = {
    "full": {"model": "{model}", "bare, s": "{other:.2f}", "ours, s": "{ours:.2f}",
             "ratio (goal ≤ 1.05)": "**{ratio:.2f}**"},
    "longppl": {"model": "{model}", "procedure, s": "{other:.1f}", "ours, s": "{ours:.1f}",
                "ratio (goal ≤ 0.7 / 0.55)": "**{ratio:.2f}**",
                "largest difference, nats": "{nats:.1e}"},
    "harness": {"model": "{model}", "harness, s": "{other:.2f}", "ours, s": "{ours:.2f}",
                "ratio (goal ≤ 1.0)": "**{ratio:.2f}**"},
    "retrieval": {"tokens": "{tokens:,}", "k = 1, s": "{k1:.1f}", "k = 4, s": "{k4:.1f}",
                  "k = 16, s": "{k16:.1f}", "k = 16 / k = 1 (goal ≤ 1.35)": "**{ratio:.2f}**"},
    "memory": {"model": "{model}", "tokens": "{tokens:,}", "full logits, MB": "{other:,.0f}",
               "ours, MB": "{ours:,.0f}", "ratio (goal ≤ 0.2)": "**{ratio:.2f}**",
               "ours, s": "{seconds:.1f}"},
    "bytes": {"condition": "{condition}", "rows": "{rows:,}",
              "bytes per row (goal ≤ 10)": "**{each:.2f}**"},
}  # fmt: skip
"""Part → its table."""


@click.command(help=__doc__)
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)),
              help="Measure only this part; may be repeated.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), default=OUTPUT, help="The output.")
@click.option("--one", nargs=5, hidden=True, help="One measurement, in this process.")
def main(parts: tuple[str, ...], output: Path, one: tuple[str, ...] | None) -> None:
    """Measure parts and print them."""
    if one:
        case, name, *numbers = one
        click.echo(json.dumps(measure_one(case, name, *map(int, numbers))))
        return
    here = machine(*PACKAGES)
    found = json.loads(output.read_text("utf-8")) if output.exists() else {"machine": here}
    if found["machine"] != here:
        raise click.ClickException(
            f"{output} is of another machine or other versions ({found['machine']}, here {here}); "
            "delete it, or name another with --output"
        )
    for part in parts or PARTS:
        load = round(os.getloadavg()[0], 2)
        found.setdefault("parts", {})[part] = {"load_before": load, "rows": PARTS[part]()}
        write_whole(output, json.dumps(found, indent=1) + "\n")
        lines = table(COLUMNS[part], found["parts"][part]["rows"])
        click.echo("\n".join([f"\n{part}, load before {load}\n", *lines]))


if __name__ == "__main__":
    main()
