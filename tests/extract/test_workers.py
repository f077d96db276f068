"""`--workers N`: who gets which models, real processes in one folder, and what ends them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner
from engines import FIRST_WITHOUT_MEMORY, HELD, use_engine
from published_tables import assert_same, published
from tiny_runs import ok, run

from extract import cli, workers
from extract.background import Background, Prefetch
from extract.planning.cost import Footprint
from extract.planning.tables import Plan
from extract.workers import sigterm_interrupts
from warehouse.child_process import inherited, python_module
from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units

CHECKOUT = Path(__file__).parents[2]
GIB = 2**30


@pytest.mark.parametrize(
    ("gpus", "needed", "expected"),
    [
        ([80 * GIB] * 8, [16 * GIB, 20 * GIB], 8),
        # what fits on the smallest GPU, to the byte
        ([80 * GIB, 20 * GIB], [16 * GIB, 20 * GIB], 2),
        ([80 * GIB, 20 * GIB - 1], [16 * GIB, 20 * GIB], 2),
        ([80 * GIB, 16 * GIB - 1], [16 * GIB, 20 * GIB], 1),
        # unknown counts as too large
        ([80 * GIB] * 2, [16 * GIB, None], 2),
        ([80 * GIB] * 2, [None], 1),
        # nothing to do, one GPU, none that torch counts
        ([80 * GIB] * 4, [], 1),
        ([80 * GIB], [16 * GIB], 1),
        ([], [16 * GIB], 1),
    ],
)
def test_a_worker_per_gpu_where_models_fit_on_one(gpus, needed, expected, monkeypatch):
    monkeypatch.setattr(workers, "free_gpus", lambda device: gpus)
    models = [
        SimpleNamespace(left=1.0, memory=size and Footprint(size, 0, 0, 0), spec=size)
        for size in needed
    ]
    done = SimpleNamespace(left=0.0, memory=Footprint(1, 0, 0, 0), spec=1)
    plan = Plan("", (*models, done), ())
    assert workers.gpu_workers(plan, "auto-map") == expected
    fitting = tuple(size for size in needed if size and size <= min(gpus, default=0))
    assert workers.fitting_models(plan, "auto-map") == fitting


@pytest.mark.parametrize(
    ("device", "options", "models"),
    [
        ("cuda", ["--as-worker", "2026-01-02T03:04:05"], ["tiny/two"]),
        # the parent runs what its workers leave; of other makers' GPUs nobody asks for memory
        ("cuda", [], ["tiny/one", "tiny/two"]),
        ("mps", [], ["tiny/one", "tiny/two"]),
    ],
)
def test_a_worker_leaves_models_larger_than_its_gpu(
    device, options, models, workspace, tiny_problem, monkeypatch
):
    def free(device):
        assert device == "cuda"
        return [80 * GIB]

    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: device)
    for module in ("workers", "devices"):
        monkeypatch.setattr(f"extract.{module}.free_gpus", free)
    monkeypatch.setattr(
        workers, "fitting_models", lambda plan, device: tuple(m.spec for m in plan.models[1:])
    )
    done = []
    monkeypatch.setattr("extract.run.extract_here", lambda chosen, *rest: done.append(chosen))
    given = ["--problem", str(tiny_problem(texts=1)), *options]
    assert CliRunner().invoke(cli.extract, given).exit_code == 0
    assert [spec.full_id for spec in done[0].models] == models


@pytest.mark.parametrize(
    ("hip", "visible", "expected"),
    [
        (None, {}, "CUDA_VISIBLE_DEVICES 0 1 0"),
        (None, {"CUDA_VISIBLE_DEVICES": "4,7"}, "CUDA_VISIBLE_DEVICES 4 7 4"),
        # AMD's own name goes before, and counts what ROCR_VISIBLE_DEVICES leaves
        ("6.4", {"ROCR_VISIBLE_DEVICES": "5,6"}, "HIP_VISIBLE_DEVICES 0 1 0"),
        ("6.4", {"CUDA_VISIBLE_DEVICES": "4,7"}, "HIP_VISIBLE_DEVICES 4 7 4"),
        (
            "6.4",
            {"CUDA_VISIBLE_DEVICES": "4,7", "HIP_VISIBLE_DEVICES": "2,3"},
            "HIP_VISIBLE_DEVICES 2 3 2",
        ),
    ],
)
def test_each_worker_has_one_gpu(hip, visible, expected, monkeypatch):
    import torch

    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in visible.items():
        monkeypatch.setenv(name, value)
    name, *gpus = expected.split()
    assert workers.worker_environments(3, "auto-map") == [{name: gpu} for gpu in gpus]
    assert workers.worker_environments(2, "cuda:1") == [{}, {}]


def test_processors_are_divided(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 8)
    assert workers.worker_environments(3, "cpu") == [{"OMP_NUM_THREADS": "2"}] * 3


@pytest.mark.parametrize(("as_worker", "shared"), [(None, 1), ("2026-01-02T03:04:05", 0)])
def test_a_worker_starts_no_workers(as_worker, shared, workspace, tiny_problem, monkeypatch):
    teams: list[list[workers.Worker]] = []
    monkeypatch.setattr(
        "extract.workers.run_workers", lambda team, *rest: teams.append(team) or [0, 0]
    )
    monkeypatch.setattr(workers.Worker, "outcome", lambda worker, code: "")
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "extract.run.extract_here",
        lambda selection, *rest: done.append(tuple(spec.full_id for spec in selection.models)),
    )
    given = ["extract", "--problem", str(tiny_problem(texts=1)), "--device", "cpu"]
    given += ["--workers", "2", *(["--as-worker", as_worker] if as_worker else [])]
    monkeypatch.setattr(sys, "argv", ["tokenmart", *given])
    assert CliRunner().invoke(cli.extract, given[1:]).exit_code == 0
    assert len(teams) == shared
    # this process does all that the workers leave
    assert done == [("tiny/one", "tiny/two")]
    for worker in teams[0] if teams else ():
        assert worker.arguments[:-2] == given and worker.arguments[-2] == "--as-worker"


@pytest.fixture
def held(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Workers wait, each inside its first document, until `go` appears."""
    use_engine(HELD, workspace.root, monkeypatch)
    yield workspace.root
    (workspace.root / "go").touch()


def start(path: Path, count: int, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tokenmart", "extract", "--problem", str(path)),
            *("--device", "cpu", "--workers", str(count), *options),
        ],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def waiting_workers(
    process: subprocess.Popen[str], place: Path, count: int
) -> list[psutil.Process]:
    """The children once each of them holds a document; fails when the run ends before."""
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        found = psutil.Process(process.pid).children()
        if sum((place / f"waiting-{child.pid}").exists() for child in found) == count:
            return found
        time.sleep(0.01)
    process.kill()
    raise AssertionError(process.communicate()[0])


def no_unit_twice(workspace: Workspace) -> int:
    units = [u for f in workspace.tokens.glob("problem=tiny/**/*.parquet") for u in read_units(f)]
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units})
    return len(units)


@pytest.mark.slow
def test_workers_leave_the_table_of_one_process(workspace, tiny_problem):
    path = tiny_problem(texts=6)
    ok(run(path))
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    together = start(path, 2)
    output, _ = together.communicate()
    assert together.returncode == 0, output
    assert no_unit_twice(workspace) == 48
    for name, table in published(workspace).items():
        assert_same(table, expected[name])


@pytest.mark.slow
def test_what_a_killed_worker_had_is_done(workspace, tiny_problem, held):
    process = start(tiny_problem(texts=6), 2)
    victim, _ = waiting_workers(process, held, 2)
    victim.send_signal(signal.SIGKILL)
    (held / "go").touch()
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert output.count("(signal 9)") == 1
    assert no_unit_twice(workspace) == 48


@pytest.mark.slow
@pytest.mark.parametrize("when", ["load", "score", "always"])
def test_what_one_worker_has_no_memory_for_is_done_by_another(
    when, workspace, tiny_problem, monkeypatch
):
    """It is recorded as failed only where nobody could do it, and tried again in the next run."""
    code = FIRST_WITHOUT_MEMORY.replace('WHEN = "load"', f"WHEN = {when!r}")
    use_engine(code, workspace.root, monkeypatch)
    path = tiny_problem(texts=2)
    process = start(path, 2)
    output, _ = process.communicate()
    assert output.count("failed (exit code 5)") == (2 if when == "always" else 1), output
    states = {u.status for file in workspace.tokens.rglob("*.parquet") for u in read_units(file)}
    tried = len(list(workspace.root.glob("tried-*")))
    if when == "always":
        assert process.returncode == 5 and states == {"failed"} and tried == 3, output
        use_engine(HELD, workspace.root, monkeypatch)
        (workspace.root / "go").touch()
        process = start(path, 2)
        output, _ = process.communicate()
        states = {u.status for f in workspace.tokens.rglob("*.parquet") for u in read_units(f)}
    assert process.returncode == 0 and states == {"done"}, output
    assert no_unit_twice(workspace) == 16
    if when == "load":  # the other worker did all: the parent loaded nothing
        assert tried == 2 and "extracted 0 units" in output and "16 of 16" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "background"),
    [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGTERM, True)],
)
def test_stopping_the_parent_stops_the_workers(how, background, tiny_problem, held):
    """Also of a run that a script has started with `&`, which ignores SIGINT."""
    path = tiny_problem(texts=6)
    previous = signal.signal(
        signal.SIGINT, signal.SIG_IGN if background else signal.default_int_handler
    )
    try:
        process = start(path, 2)
    finally:
        signal.signal(signal.SIGINT, previous)
    children = waiting_workers(process, held, 2)
    process.send_signal(how)
    output, _ = process.communicate(timeout=30)
    assert process.returncode not in (0, None) and "Traceback" not in output, output
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("script", ["exec sleep 60", "trap '' TERM; exec sleep 60"])
def test_a_damaged_ledger_leaves_no_worker_behind(script, workspace, monkeypatch):
    """Nor one that does not listen."""
    program = workspace.root / "worker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.5)
    others = set(psutil.Process().children())
    seen: set[psutil.Process] = set()

    def damaged() -> int:
        seen.update(set(psutil.Process().children()) - others)
        raise StorageError("tokens.parquet: damaged")

    team = [workers.Worker([], {}, workspace.root / f"log{n}", "worker") for n in (1, 2)]
    with pytest.raises(StorageError):
        workers.run_workers(team, damaged, lambda what, units: None)
    assert len(seen) == 2 and not any(child.is_running() for child in seen)


@pytest.mark.parametrize(
    ("arguments", "code"), [(["extract", "--problem", "nowhere.yml"], 1), (["--help"], 0)]
)
def test_a_worker_s_errors_are_in_its_log(arguments, code, workspace):
    worker = workers.Worker(arguments, {}, workspace.root / "logs" / "1.log", "worker 1")
    assert workers.run_workers([worker], lambda: 0, lambda what, units: None) == [code]
    line = worker.outcome(code)
    assert worker.log.exists() == bool(code)
    assert (str(worker.log) in line and "nowhere.yml" in line) == bool(code)


def test_more_workers_than_fit_are_refused(workspace, tiny_problem):
    refused = run(tiny_problem(texts=1), "--workers", "100000")
    assert refused.exit_code == 1 and not workspace.pending.exists()


def test_storing_raises_in_the_working_thread_and_keeps_order():
    done: list[int] = []

    def fail() -> None:
        raise OSError("disk full")

    with Background() as storing:
        for number in range(5):
            storing.submit(lambda number=number: done.append(number))
    assert done == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="disk full"), Background() as storing:
        storing.submit(fail)
        storing.finish()
    with pytest.raises(OSError, match="disk full"), Background() as storing:
        storing.submit(fail)
    with pytest.raises(KeyboardInterrupt), Background() as storing:
        storing.submit(lambda: (time.sleep(0.2), done.append(9))[1])
        raise KeyboardInterrupt
    assert done[-1] == 9, "what was computed is stored before an interrupt gets through"


def test_the_next_result_may_be_computed_early_and_each_only_once():
    calls: list[int] = []
    begun = threading.Event()

    def call(item: int) -> float:
        calls.append(item)
        begun.set()
        return 12 / item

    prefetch = Prefetch(call, [3, 0, 4])
    assert prefetch.take() == 4
    begun.clear()
    prefetch.start()
    assert begun.wait(10) and calls == [3, 0]
    prefetch.start()
    with pytest.raises(ZeroDivisionError):
        prefetch.take()
    assert prefetch.take() == 3 and calls == [3, 0, 4]
    prefetch.start()
    prefetch.close()


@pytest.mark.parametrize("in_main", [True, False])
def test_a_sigterm_is_an_interrupt_for_as_long_as_it_lasts(in_main):
    """Other threads may not set handlers."""
    before = signal.getsignal(signal.SIGTERM)
    if in_main:
        with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
    else:
        seen = []

        def look() -> None:
            with sigterm_interrupts():
                seen.append(signal.getsignal(signal.SIGTERM))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [before]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.5])
def test_two_quick_interrupts_leave_no_traceback(gap, workspace, tiny_problem):
    command = [*python_module("tokenmart"), "extract", "--device", "cpu", "--problem"]
    child = subprocess.Popen(
        [*command, str(tiny_problem(texts=60))],
        env={**inherited(), **workspace.environment()},
        stderr=subprocess.PIPE,
        text=True,
    )
    pending = workspace.pending / "problem=tiny"
    until = time.monotonic() + 120
    while child.poll() is None and not pending.is_dir():
        assert time.monotonic() < until
        time.sleep(0.05)
    for _ in range(2):
        child.send_signal(signal.SIGINT)
        time.sleep(gap)
    _, errors = child.communicate(timeout=60)
    assert child.returncode in (130, -signal.SIGINT), errors
    assert "Traceback" not in errors
