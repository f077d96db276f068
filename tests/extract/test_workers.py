"""`--workers N`: real processes that share one folder, and what happens when one dies."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psutil
import pytest
import yaml
from held_backend import HELD_BACKEND
from plugin_folders import write_plugin
from published_tables import assert_same, published
from tiny_models import make_checkpoint
from tiny_runs import ok, run

from extract import workers
from extract.background import Background
from extract.cli import extract
from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def held(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Workers with `--backend held` wait, each inside its first document, until `go` appears."""
    plugins = write_plugin(workspace.root / "plugins", backends=HELD_BACKEND)
    monkeypatch.setenv("TOKENMART_PLUGINS", str(plugins))
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


def team(arguments: list[str], logs: list[Path]) -> list[workers.Worker]:
    return [
        workers.Worker(arguments, {}, log, f"worker {number}") for number, log in enumerate(logs, 1)
    ]


def waiting_workers(
    process: subprocess.Popen[str], place: Path, count: int
) -> list[psutil.Process]:
    """The children once each of them holds a document; fails when the run ends before."""
    while process.poll() is None:
        found = psutil.Process(process.pid).children()
        if sum((place / f"waiting-{child.pid}").exists() for child in found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError(process.communicate()[0])


def no_unit_twice(workspace: Workspace) -> int:
    units = [u for f in workspace.tokens.glob("problem=tiny/**/*.parquet") for u in read_units(f)]
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units})
    return len(units)


def test_a_worker_gets_the_options_of_its_parent() -> None:
    given = ["--problem", "a b.yml", "--model", "x", "--model", "y", "--workers", "3"]
    given += ["--max-tokens", "99", "--force"]
    with extract.make_context("extract", given) as context:
        arguments = workers.worker_arguments(context.command, context.params)
    with extract.make_context("extract", arguments[1:]) as again:
        assert again.params == {**context.params, "workers": None}
    assert arguments[0] == "extract" and isinstance(extract, click.Command)


def test_each_worker_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 8)
    assert workers.worker_environments(3, "cpu") == [{"OMP_NUM_THREADS": "2"}] * 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    seen = [each["CUDA_VISIBLE_DEVICES"] for each in workers.worker_environments(3, "auto-map")]
    assert seen == ["4", "7", "4"]
    assert workers.worker_environments(2, "cuda:1") == [{}, {}]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ({}, ["0", "1", "0"]),
        ({"ROCR_VISIBLE_DEVICES": "5,6"}, ["0", "1", "0"]),
        ({"CUDA_VISIBLE_DEVICES": "4,7"}, ["4", "7", "4"]),
        ({"CUDA_VISIBLE_DEVICES": "4,7", "HIP_VISIBLE_DEVICES": "2,3"}, ["2", "3", "2"]),
    ],
)
def test_amd_gpus_are_divided_by_the_name_that_goes_before(
    visible: dict[str, str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in visible.items():
        monkeypatch.setenv(name, value)
    shares = workers.worker_environments(3, "auto-map")
    assert shares == [{"HIP_VISIBLE_DEVICES": gpu} for gpu in expected]


def test_workers_leave_the_table_of_one_process(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=6)
    ok(run(path))
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    together = start(path, 2)
    output, _ = together.communicate()
    assert together.returncode == 0, output
    assert "2 workers" in output and "48 of 48 were there already" in output
    assert no_unit_twice(workspace) == 48
    for name, table in published(workspace).items():
        assert_same(table, expected[name])


def test_a_killed_worker_is_named_and_its_part_is_done(
    workspace: Workspace, tiny_problem: Callable[..., Path], held: Path
) -> None:
    process = start(tiny_problem(texts=6), 2, "--backend", "held")
    victim, _ = waiting_workers(process, held, 2)
    victim.send_signal(signal.SIGKILL)
    (held / "go").touch()
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert output.count("was killed (signal 9)") == 1
    assert no_unit_twice(workspace) == 48


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "background"),
    [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGTERM, True)],
)
def test_stopping_the_parent_stops_the_workers(
    how: signal.Signals, background: bool, tiny_problem: Callable[..., Path], held: Path
) -> None:
    """Also of a run that a script has started with `&`, which ignores SIGINT."""
    path = tiny_problem(texts=6)
    previous = signal.signal(
        signal.SIGINT, signal.SIG_IGN if background else signal.default_int_handler
    )
    try:
        process = start(path, 2, "--backend", "held")
    finally:
        signal.signal(signal.SIGINT, previous)
    children = waiting_workers(process, held, 2)
    process.send_signal(how)
    output, _ = process.communicate(timeout=30)
    assert process.returncode not in (0, None), output
    assert "Traceback" not in output and "interrupted" in output
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("script", ["exec sleep 60", "trap '' TERM; exec sleep 60"])
def test_a_damaged_ledger_leaves_no_worker_behind(
    script: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that does not listen."""
    worker = workspace.root / "worker"
    worker.write_text(f"#!/bin/sh\n{script}\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.5)
    others = set(psutil.Process().children())
    seen: set[psutil.Process] = set()

    def damaged() -> int:
        seen.update(set(psutil.Process().children()) - others)
        raise StorageError("tokens.parquet: damaged")

    logs = workers.worker_logs(workspace, "2026-01-02T03:04:05+00:00", 2)
    with pytest.raises(StorageError):
        workers.run_workers(team(["extract"], logs), damaged, lambda what, units: None)
    assert len(seen) == 2 and not any(child.is_running() for child in seen)


@pytest.mark.slow
def test_a_failing_model_is_tried_once_and_said_once(
    workspace: Workspace, tiny_problem: Callable[..., Path], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = make_checkpoint(tmp_path / "nan")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    model.save_pretrained(folder)
    raw = yaml.safe_load(tiny_problem(texts=2).read_text())
    raw["models"][0]["source"]["path"] = str(folder)
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    process = start(path, 2)
    output, _ = process.communicate()
    assert process.returncode == 5, output
    assert output.count("NaN or infinite logits") == 1  # one line for the model
    # a worker that met them says so in its log and in the parent's warning
    for warning in [line for line in output.splitlines() if line.startswith("warning: worker")]:
        assert "failed (exit code 5): error: " in warning
        log = Path(warning.rpartition("(log: ")[2].rstrip(")"))
        assert log.parent == workspace.data / "logs"
        assert "NaN or infinite logits" in log.read_text()
    assert "warning: worker" in output
    units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert [unit.status for unit in units] == ["failed", "failed"]


def test_a_worker_that_fails_for_any_reason_is_reported(workspace: Workspace) -> None:
    logs = workers.worker_logs(workspace, "2026-01-02T03:04:05+00:00", 2)
    assert [log.name for log in logs] == [
        f"extract-20260102T0304050000-worker-{number}.log" for number in (1, 2)
    ]
    lost = team(["extract", "--problem", "nowhere.yml"], logs)
    ended = workers.run_workers(lost, lambda: 0, lambda what, units: None)
    first, second = ended.failures
    assert first.startswith("worker 1 failed (exit code 1): error: nowhere.yml: no such problem")
    assert second.endswith(f"(log: {logs[1]})")
    assert "no such problem" in logs[1].read_text()


def test_workers_that_end_well_leave_no_logs(workspace: Workspace) -> None:
    logs = workers.worker_logs(workspace, "2026-01-02T03:04:05+00:00", 1)
    ended = workers.run_workers(team(["--help"], logs), lambda: 0, lambda what, units: None)
    assert ended == workers.Ended(()) and not logs[0].exists()


def test_more_workers_than_fit_are_refused(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_problem(texts=1)
    process = start(path, 100_000)
    output, _ = process.communicate()
    assert process.returncode == 1 and "use --workers" in output, output


def test_storing_raises_in_the_working_thread_and_keeps_order() -> None:
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
