"""Rows, time and devices of `bench_gpu.py`."""

from __future__ import annotations

import datetime
import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import click
import torch

from extract.devices import PeakMemory, device_name, peak_flops
from extract.failures import is_out_of_memory
from warehouse.errors import first_line
from warehouse.store.provenance import code_revision

Part = Literal["families", "correctness", "memory", "extraction", "divergence", "speed"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Row:
    """One line of the table; None where a figure does not apply."""

    part: Part
    model: str
    dtype: str
    tokens: int
    what: str
    seconds: float | None = None
    tokens_per_second: float | None = None
    share_of_peak: float | None = None
    times_ours: float | None = None
    predicted_bytes: int | None = None
    peak_bytes: int | None = None
    largest_nats: float | None = None
    mean_nats: float | None = None
    note: str = ""


@dataclass
class Bench:
    """Rows so far, and how they are measured: device, tokens of the texts, probes, repeats.

    `until` is the time of `time.monotonic` after which nothing begins.
    """

    device: str
    dtype: str
    lengths: tuple[int, ...]
    probes: tuple[Any, ...]
    repeats: int
    until: float
    out: Path | None
    fused: bool = True
    flops: float = 0.0
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU of CUDA."""
        return self.device.startswith("cuda")

    @property
    def name(self) -> str:
        """The device in its maker's words."""
        return device_name(self.device) or self.device

    @property
    def peak(self) -> float | None:
        """The data sheet's dense half-precision FLOP/s; None for a device that is not known."""
        return peak_flops(self.name, "bfloat16")

    def conditions(self, *probes: str) -> list[Any]:
        """The conditions of these kinds of probes."""
        return [c for probe in self.probes if probe.kind in probes for c in probe.conditions()]

    def add(self, row: Row) -> None:
        """Print a row's figures and write all so far."""
        self.rows.append(row)
        shown = {name: value for name, value in asdict(row).items() if value not in (None, "")}
        click.echo(", ".join(f"{name} {value}" for name, value in shown.items()))
        self.write()

    def write(self) -> None:
        """Write the JSON, as far as it goes."""
        if self.out is not None:
            self.out.write_text(json.dumps(self.record(), indent=1))

    def record(self) -> dict[str, Any]:
        """Machine, rows, what was left out and what was wrong."""
        return {
            "date": datetime.date.today().isoformat(),
            "device": self.name,
            "peak_tflops": self.peak and self.peak / 1e12,
            "matmul_tflops": self.flops / 1e12,
            "dtype": self.dtype,
            "versions": {name: version(name) for name in ("tokenmart", "torch", "transformers")},
            "code": code_revision(),
            "fused": self.fused,
            "rows": [asdict(row) for row in self.rows],
            "skipped": self.skipped,
            "wrong": self.wrong,
        }

    def run(self, part: Part, work: Callable[..., None], *asked: Any) -> None:
        """Call `work(bench, *asked)`; an error that ends it is reported, and the next one begins.

        What is left out, for its time or for its memory, is named at the end.
        """
        what = f"{part} of {', '.join(map(str, asked))}"
        if time.monotonic() > self.until:
            self.skipped.append(f"{what} (no time left)")
            return
        try:
            work(self, *asked)
        except Exception as error:
            record = self.skipped if is_out_of_memory(error) else self.wrong
            record.append(f"{what} ended with {type(error).__name__}: {first_line(error, 200)}")
        self.give_back()

    def must(self, holds: bool, what: str) -> None:
        """Record a failure, for the exit code."""
        if not holds:
            self.wrong.append(what)

    def measure(self, work: Callable[[], Any], repeats: int | None = None) -> tuple[float, int]:
        """Best seconds of the repeats after a first call, which alone counts from 10 s on.

        Returns:
            Seconds, and the peak of memory in bytes over all calls, weights included.
        """
        memory = PeakMemory(self.device)
        memory.reset()
        seconds: list[float] = []
        for _ in range(1 + (self.repeats if repeats is None else repeats)):
            started = time.perf_counter()
            work()
            if self.on_gpu:
                torch.cuda.synchronize(self.device)
            seconds.append(time.perf_counter() - started)
            if seconds[0] >= 10.0:
                break
        return min(seconds[1:] or seconds), memory.bytes()

    def measure_matmul(self) -> None:
        """Take the FLOP/s of one large matrix product."""
        width = 8192 if self.on_gpu else 1024
        dtype = getattr(torch, self.dtype)
        factor = torch.randn(width, width, device=self.device, dtype=dtype)
        self.flops = 2.0 * width**3 / self.measure(lambda: factor @ factor, 5)[0]

    def give_back(self) -> int:
        """Free what nothing refers to any more; returns the bytes still allocated on a GPU."""
        gc.collect()
        if not self.on_gpu:
            return 0
        torch.cuda.empty_cache()
        return int(torch.cuda.memory_allocated(self.device))
