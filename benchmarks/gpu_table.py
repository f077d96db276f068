"""Rows, time and devices of `bench_gpu.py`."""

from __future__ import annotations

import datetime
import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import click

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


@dataclass(frozen=True)
class Size:
    """What is measured: documents, probes, and the tokens of the parts that need but one length.

    The probes of a tiny run fit into tiny documents.
    """

    lengths: tuple[int, ...]
    probes: tuple[Any, ...]
    window: tuple[int, int]
    repeats: int


@dataclass
class Bench:
    """Rows so far, and the time and the device they were measured with."""

    device: str
    dtype: str
    size: Size
    until: float
    out: Path | None
    chosen: tuple[Part, ...]
    fused: bool = True
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    flops: float = 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU of CUDA."""
        return self.device.startswith("cuda")

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
        rows = [asdict(row) for row in self.rows]
        layers = {"fused": self.fused}
        return {
            **_environment(self),
            **layers,
            "rows": rows,
            "skipped": self.skipped,
            "wrong": self.wrong,
        }

    def fits(self, part: Part, what: str, flops: float, seconds: float = 5.0) -> bool:
        """Whether a measurement was asked for and ends in time, at a third of the measured speed.

        What is left out for its time is named at the end.
        """
        if part not in self.chosen:
            return False
        left = self.until - time.monotonic()
        needed = seconds + flops / (self.flops / 3)
        if needed > left:
            self.skipped.append(f"{part}: {what} (about {needed:.0f} s, {max(left, 0):.0f} s left)")
        return needed <= left

    def run(self, what: str, work: Callable[[], None]) -> None:
        """Do a part of the measurements; an error that ends it is reported, and the next one
        begins.
        """
        try:
            work()
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0][:200]
            self.wrong.append(f"{what} ended with {type(error).__name__}: {first}")
        give_back(self.device)

    def must(self, holds: bool, what: str) -> None:
        """Record a failure, for the exit code."""
        if not holds:
            self.wrong.append(what)


def _environment(bench: Bench) -> dict[str, Any]:
    from extract.unit_rows import running_code

    commit, dirty = running_code()
    return {
        "date": datetime.date.today().isoformat(),
        "device": device_name(bench.device),
        "peak_tflops": peak_tflops(device_name(bench.device)),
        "matmul_tflops": bench.flops / 1e12,
        "dtype": bench.dtype,
        "versions": {name: version(name) for name in ("tokenmart", "torch", "transformers")},
        "code": {"revision": commit, "dirty": dirty},
    }


def device_name(device: str) -> str:
    """The device in its maker's words."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def peak_tflops(name: str) -> float | None:
    """The data sheet's dense half-precision TFLOP/s; None for a device that is not known."""
    from extract.devices import peak_flops

    peak = peak_flops(name, "bfloat16")
    return None if peak is None else peak / 1e12


def matmul_flops(device: str, dtype: str) -> float:
    """FLOP/s of one large matrix product: the best of three after a first one."""
    import torch

    width = 8192 if device.startswith("cuda") else 1024
    factor = torch.randn(width, width, device=device, dtype=getattr(torch, dtype))
    seconds, _ = measure(lambda: factor @ factor, device, 5)
    return 2.0 * width**3 / seconds


def measure(work: Callable[[], Any], device: str, repeats: int) -> tuple[float, int]:
    """Best seconds of `repeats` after a first call, which alone counts when it takes 10 s or more.

    Returns:
        Seconds, and the peak of memory in bytes over all calls, weights included.
    """
    from extract.devices import PeakMemory

    memory = PeakMemory(device)
    memory.reset()
    seconds: list[float] = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - started)
        if seconds[0] >= 10.0:
            break
    return min(seconds[1:] or seconds), memory.bytes()


def synchronize(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def give_back(device: str) -> int:
    """Free what nothing refers to any more; returns the bytes still allocated on a GPU."""
    import torch

    gc.collect()
    if not device.startswith("cuda"):
        return 0
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_allocated(device))


@contextmanager
def out_of_memory_named(told: list[str]) -> Iterator[None]:
    """Catch out-of-memory errors, of plain PyTorch and ours; report them in one word."""
    from baselines import ForeignError

    from extract.failures import is_out_of_memory
    from warehouse.errors import TokenmartError

    try:
        yield
    except (TokenmartError, ForeignError) as error:
        told.append(str(error))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        told.append("out of memory")
