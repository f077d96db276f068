"""The engine on this machine's GPU: correctness, speed and memory, compared with others.

    python benchmarks/bench_gpu.py --out bench_gpu.json       # about 20 minutes, no download
    python benchmarks/bench_gpu.py --device cpu --tiny        # a look at the table, in seconds

With and without fused layers on one card, in 8 minutes:

    python benchmarks/bench_gpu.py --minutes 3.5 --part speed --no-fused --out own_layers.json
    python benchmarks/bench_gpu.py --minutes 4.5 --out bench_gpu.json

Weights are random, in the shapes that `no4k` publishes for Qwen2.5 0.5B and 7B. Their attention
and logits are sharpened to those of a trained model, or a wrong mask would hardly be seen. Each
row is printed when it is measured, in seconds, bytes and nats; the tables follow at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from gpu_correctness import correctness, families_correctness, memory  # noqa: E402
from gpu_extraction import extraction  # noqa: E402
from gpu_results import section  # noqa: E402
from gpu_speed import divergence, predicted, speed  # noqa: E402
from gpu_subjects import TINY_PROBES, families, probes_of, published, tiny_subjects  # noqa: E402
from gpu_table import PARTS, Bench, Part  # noqa: E402
from transformers.utils import logging  # noqa: E402

from extract.devices import (  # noqa: E402
    available_memory,
    resolve_device,
    resolve_dtype,
)
from extract.scoring.layers import exact_float32  # noqa: E402


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
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Measure only this part; repeatable.",
)
@click.option("--no-fused", is_flag=True, help="Use the model's own layers, without liger-kernel.")
@click.option("--tiny", is_flag=True, help="Take tiny shapes and texts, to see that all runs.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="Begin nothing after these minutes; what is left out is named at the end.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows as JSON here."
)
def main(
    device: str,
    dtype: str,
    parts: tuple[Part, ...],
    no_fused: bool,
    tiny: bool,
    minutes: float,
    out: Path | None,
) -> None:
    """Measure the extraction engine on this machine's GPU, without a download.

    Six parts, in this order. `families` compares small Llama, Mistral, Qwen2 and Gemma 3 models,
    with fused layers and without, and `correctness` the larger shapes, with the plain forward of
    the same model: the reference is float32; in float32 ours must be far nearer to it than plain
    half precision is, in half precision as near; the effect of other tokens in the context is shown
    as well, which is the size of a wrong mask's error. `memory` takes half of the memory away while
    windows are scored. `extraction` runs a whole extraction with two models from local files, says
    how long the GPU waits before and between them, and looks whether their memory came back.
    `divergence` times two models, apart and with their divergence. `speed` times each probe at
    8,192 and 32,768 tokens, plain forwards and the LongPPL procedure, with the same dtype and
    attention.

    The share of the peak counts 2 FLOPs per weight and token and those of attention, over the
    data sheet's dense half-precision figure. Memory is what the plan of `tokenmart extract`
    predicts, and the most that PyTorch held, weights included.

    Ends with exit code 1 when something measured is wrong (a difference too large, memory that
    did not come back, a run that failed), or there is no GPU.

    \b
    python benchmarks/bench_gpu.py --out bench_gpu.json
    python benchmarks/bench_gpu.py --part extraction --minutes 6
    """
    started = time.monotonic()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    exact_float32()
    place = resolve_device(device)
    if device == "auto" and place == "cpu":
        raise click.ClickException(
            "no GPU here, so there is nothing to measure; run this on the machine with the GPU, or "
            "see that all runs with --device cpu --tiny"
        )
    place = "cuda:0" if place in ("cuda", "auto-map") else place
    subjects = tiny_subjects(place) if tiny else published(place)
    bench = Bench(
        device=place,
        dtype=resolve_dtype(subjects[0].spec, dtype, place),
        lengths=(96, 192) if tiny else (8192, 32_768),
        probes=probes_of(tiny),
        repeats=0 if tiny else 2,
        until=started + 60 * minutes,
        out=out,
        fused=not no_fused,
    )
    bench.measure_matmul()
    click.echo(
        f"{bench.name}: {bench.flops / 1e12:.1f} TFLOP/s in one product, data sheet "
        f"{bench.peak / 1e12 if bench.peak else 'unknown'}; {bench.dtype}; torch "
        f"{version('torch')}, transformers {version('transformers')}\n"
    )
    first, *others = subjects
    free, count = available_memory(place), bench.lengths[-1]
    for other in others:
        if predicted(bench, other, count, bench.conditions("retrieval")) > free:
            bench.skipped.append(f"{other}: it does not fit into {free / 2**30:.0f} GiB")
            subjects.remove(other)

    def run(part: Part, work: Callable[..., None], *asked: Any) -> None:
        if part in (parts or PARTS):
            bench.run(part, work, *asked)

    for small in families(tiny, place):
        for probe in TINY_PROBES:
            run("families", families_correctness, small, probe)
    for probe in TINY_PROBES:
        run("correctness", correctness, first, probe)
    run("memory", memory, first)
    run("extraction", extraction, *reversed(subjects))
    run("divergence", divergence, first, count)
    for subject in subjects:
        for length in bench.lengths:
            run("speed", speed, subject, length)
    for subject in subjects[1:]:
        for probe in TINY_PROBES:
            run("correctness", correctness, subject, probe)
    bench.write()
    click.echo(f"\n{section(bench.record())}\n")
    for left_out in bench.skipped:
        click.echo(f"left out: {left_out}")
    for wrong in bench.wrong:
        click.echo(f"wrong: {wrong}", err=True)
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
