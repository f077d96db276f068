"""Which models run one per GPU, and which over all GPUs: decided from numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from extract import cli
from extract.planning.tables import Plan
from extract.workers import Ended, Sharing, Worker, share_gpus, sharing_of
from warehouse.paths import Workspace

GIB = 2**30
SMALL = {"a/small": 16 * GIB, "b/small": 20 * GIB}
BOTH = ("a/small", "b/small")


@pytest.mark.parametrize(
    ("gpus", "needed", "asked", "workers", "each", "spread"),
    [
        ([80 * GIB] * 8, SMALL, None, 8, (BOTH,) * 8, ()),
        ([24 * GIB, 24 * GIB], SMALL, 4, 4, (BOTH,) * 4, ()),
        # each GPU takes what fits on it, to the byte
        ([80 * GIB, 20 * GIB], SMALL, None, 2, (BOTH, BOTH), ()),
        ([80 * GIB, 20 * GIB - 1], SMALL, None, 2, (BOTH, ("a/small",)), ()),
        ([80 * GIB, 15 * GIB], SMALL, None, 2, (BOTH, ()), ()),
        ([18 * GIB, 18 * GIB], SMALL, None, 2, (("a/small",),) * 2, ("b/small",)),
        # unknown counts as too large
        ([80 * GIB] * 2, {**SMALL, "c": None}, None, 2, (BOTH, BOTH), ("c",)),
        # nothing fits, nothing to do, one GPU, one worker by name: one process with the device
        ([8 * GIB] * 4, SMALL, None, 1, None, ()),
        ([80 * GIB] * 4, {}, None, 1, None, ()),
        ([80 * GIB], SMALL, None, 1, None, ()),
        ([80 * GIB], SMALL, 3, 3, None, ()),
        ([80 * GIB] * 4, SMALL, 1, 1, None, ()),
        ([], SMALL, None, 1, None, ()),
    ],
)
def test_a_worker_per_gpu_for_what_fits_on_one(
    gpus: list[int],
    needed: dict[str, int | None],
    asked: int | None,
    workers: int,
    each: tuple[tuple[str, ...], ...] | None,
    spread: tuple[str, ...],
) -> None:
    found = share_gpus(gpus, needed, asked)
    assert (found.workers, found.each, found.spread) == (workers, each, spread)
    assert all(name in found.sentence for name in spread)
    assert bool(found.sentence) == (len(gpus) > 1 and bool(needed))
    assert ("leaves out" in found.sentence) == (each is not None and len(set(each)) > 1)


def test_a_device_by_name_is_obeyed() -> None:
    nothing = Plan("", (), ())
    for device in ("cpu", "cuda", "cuda:1", "auto-map"):
        assert sharing_of(nothing, device, device, None) == Sharing(1)
        assert sharing_of(nothing, device, device, 3) == Sharing(3)


def test_the_decision_is_printed_and_workers_get_the_models_that_fit(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two made-up GPUs, of which one holds only the first of the two tiny models."""
    import torch

    from extract import devices
    from extract.planning import tables
    from extract.planning.memory import Footprint

    path = str(tiny_problem())
    memory = {"tiny/one": Footprint(1, 0, 0, 0), "tiny/two": Footprint(3, 0, 0, 0)}
    monkeypatch.setattr(devices, "likely_device", lambda: "auto-map")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (2, 80 * GIB))
    monkeypatch.setattr(tables, "planned_memory", lambda _, spec, longest: memory[spec.full_id])
    shown = CliRunner().invoke(cli.extract, ["--problem", path, "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "2 GPUs; 2 workers, each with a copy of the model on one GPU" in shown.output
    assert "0 GiB free: tiny/two." in shown.output.replace("\n", " ")

    monkeypatch.setattr(devices, "resolve_device", lambda asked: "auto-map")
    monkeypatch.setattr(devices, "resolve_dtype", lambda spec, asked, device: "float32")
    started: list[list[str]] = []

    def run_workers(team: list[Worker], *rest: object) -> Ended:
        gpus = [worker.environment["CUDA_VISIBLE_DEVICES"] for worker in team]
        started.append([*team[0].arguments, *gpus])
        return Ended(("worker 1 stands for both",))

    monkeypatch.setattr("extract.workers.run_workers", run_workers)
    afterwards: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "extract.run.extract_here",
        lambda selection, *rest: afterwards.append(
            (selection.device, *(spec.full_id for spec in selection.models))
        ),
    )  # fmt: skip
    done = CliRunner().invoke(cli.extract, ["--problem", path])
    assert done.exit_code == 0, done.output
    (command,) = started
    assert command[command.index("--model") + 1] == "tiny/one" and "tiny/two" not in command
    assert "--workers" not in command and command[-2:] == ["0", "1"]
    assert afterwards == [("auto-map", "tiny/one", "tiny/two")]


def test_a_worker_starts_no_workers(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it sees all GPUs, as one does whose share of the machine was not understood."""
    monkeypatch.setattr("extract.workers.sharing_of", lambda *asked: Sharing(2))
    started: list[object] = []
    monkeypatch.setattr("extract.workers.share_work", lambda *order: started.append(order))
    done: list[str] = []
    monkeypatch.setattr("extract.run.extract_here", lambda *order: done.append(order[2]))
    problem = ["--problem", str(tiny_problem(texts=1)), "--device", "cpu"]
    worker = CliRunner().invoke(cli.extract, [*problem, "--as-worker", "2026-01-02T03:04:05"])
    assert worker.exit_code == 0, worker.output
    assert started == [] and done == ["2026-01-02T03:04:05"]
    assert CliRunner().invoke(cli.extract, problem).exit_code == 0
    assert len(started) == 1
