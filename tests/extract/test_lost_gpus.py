"""A GPU that fails costs that GPU: its work goes to the others, and nothing is marked as failed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from engines import use_engine
from tiny_requests import load, requests_of
from tiny_runs import ok, run

from extract.failures import (
    DeviceLostError,
    DoesNotFitError,
    NonFiniteLogits,
    has_no_plan,
    is_out_of_memory,
    raise_if_lost,
    why_failed,
)
from extract.scoring.attention import FUSED, preferred_kernels, without_cudnn
from extract.scoring.budgets import Attempts, Budgets, refuse_large_caches
from extract.scoring.engine import Engine
from warehouse.paths import Workspace
from warehouse.probes.request import Request
from warehouse.store.ledger import read_units

CHECKOUT = Path(__file__).parents[2]
ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be …"

WORDS = {
    "torch": (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "memory"),
    "CUDA": (torch.AcceleratorError("CUDA error: out of memory"), "memory"),
    "cuBLAS": (
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        "memory",
    ),
    "cuDNN": (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "memory"),
    "the host": (MemoryError(), "memory"),
    "a processor": (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
                    "memory"),
    "no plan": (
        RuntimeError("cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans"),
        "plan",
    ),
    "no kernel": (RuntimeError("No available kernel. Aborting execution."), "plan"),
    "illegal access": (torch.AcceleratorError(ILLEGAL), "lost"),
    "an assertion": (RuntimeError("CUDA error: device-side assert triggered"), "lost"),
    "a product": (
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
        "lost",
    ),
    "a fallen card": (RuntimeError("CUDA error: unspecified launch failure"), "lost"),
    "AMD": (RuntimeError("HIP error: an illegal memory access was encountered"), "lost"),
    "a shape": (RuntimeError("The size of tensor a (3) must match tensor b (4)"), "other"),
    "a value": (ValueError("CUDA error in a file's name"), "other"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_words_of_a_device_mean_one_thing(case):
    error, kind = WORDS[case]
    found = {"memory": is_out_of_memory(error), "plan": has_no_plan(error), "lost": False}
    try:
        raise_if_lost(error)
    except DeviceLostError as lost:
        assert lost.__cause__ is None
        found["lost"] = True
    assert [name for name, true in found.items() if true] == ([kind] if kind != "other" else [])


def test_an_interrupted_query_is_no_failed_model():
    """DuckDB raises an error of its own after Ctrl-C (`test_an_interrupt_stops_a_query`)."""

    def job() -> None:
        raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        why_failed("tiny/one", job)


FLAKY = '''
import os, time
from pathlib import Path
import numpy as np
from extract.scoring.statistics import Scored, TokenScores

PLACE = Path(os.environ["TOKENMART_HOME"])


class Engine:
    """Of several workers the first that gets here has the bad card."""

    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def __init__(self, loading):
        try:
            with (PLACE / "bad").open("x") as file:
                file.write(os.environ["FLAKY_SEAT"])
        except FileExistsError:
            pass
        self.bad = (PLACE / "bad").read_text() == os.environ["FLAKY_SEAT"]

    def score(self, requests):
        import torch

        if self.bad and (PLACE / "broken").exists():
            with (PLACE / "failures").open("a") as file:
                file.write("x")
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        until = time.monotonic() + 300
        # the healthy worker leaves work to the bad one until it has failed
        while "FLAKY_WAIT" in os.environ and time.monotonic() < until:
            if (PLACE / "failures").exists():
                break
            time.sleep(0.1)
        for request in requests:
            nats = np.ones(len(request.targets), dtype=np.float32)
            first = np.ones(len(nats), dtype=np.int32)
            yield Scored(TokenScores(-nats, nats, first, -nats, nats), 0)
'''


@pytest.fixture
def flaky(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `broken` says that the card of the first to come is broken."""
    use_engine(FLAKY, workspace.root, monkeypatch)
    monkeypatch.setenv("FLAKY_SEAT", "alone")
    (workspace.root / "broken").touch()
    return workspace.root


def ledger(workspace: Workspace) -> Counter[str]:
    files = workspace.tokens.glob("problem=tiny/**/*.parquet")
    return Counter(unit.status for file in files for unit in read_units(file))


def test_a_lost_gpu_ends_the_command_and_marks_nothing_as_failed(workspace, tiny_problem, flaky):
    path = tiny_problem(probes=[{"kind": "full"}])
    assert run(path).exit_code == DeviceLostError.exit_code == 6
    assert ledger(workspace) == {}
    (flaky / "broken").unlink()
    assert "extracted 8 units" in ok(run(path))
    assert ledger(workspace) == {"done": 8}


@pytest.mark.slow
def test_of_two_workers_the_healthy_one_does_all_but_what_the_other_had(
    workspace, tiny_problem, flaky
):
    path = tiny_problem(texts=4, probes=[{"kind": "full"}])
    # what distinguishes the workers of a GPU, for processes that have none
    seats = (
        "import extract.workers as w, tokenmart\n"
        "seat = lambda i: {'FLAKY_SEAT': str(i), 'FLAKY_WAIT': '1'}\n"
        "w.worker_environments = lambda n, device: [seat(i) for i in range(n)]\n"
        "tokenmart.main()\n"
    )
    command = [sys.executable, "-c", seats, "extract", "--problem", str(path), "--device", "cpu"]
    command += ["--workers", "2"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == DeviceLostError.exit_code, done.stdout + done.stderr
    # at most the document that the lost worker had claimed is left, of either model
    assert ledger(workspace).keys() == {"done"} and 7 <= ledger(workspace)["done"] <= 8
    (flaky / "broken").unlink()
    again = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert ledger(workspace) == {"done": 8}


def test_an_out_of_memory_is_tried_again_with_an_emptied_cache_before_it_is_halved(monkeypatch):
    emptied: list[str] = []
    monkeypatch.setattr("extract.scoring.budgets.free_unused", lambda: emptied.append("cuda"))
    attempts = Attempts(torch.device("cuda"), Budgets(1024, 1024, 64), ())
    seen: list[int] = []

    def call() -> int:
        seen.append(attempts.budgets.batch_tokens)
        if len(seen) < 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 5

    monkeypatch.setattr("extract.scoring.attention.sdpa_kernel", _no_kernels)
    assert attempts.run(call, longest=4096) == 5
    assert seen == [1024, 1024, 512, 256] and emptied == ["cuda"] * 3
    assert attempts.budgets.batch_tokens == 1024


def _no_kernels(*args: object, **options: object) -> nullcontext[None]:
    return nullcontext()


def test_cudnn_s_attention_is_preferred_on_hopper_and_falls_back(monkeypatch):
    capability = (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu = torch.device("cuda")
    kernels = preferred_kernels(gpu)
    assert kernels[0].name == "CUDNN_ATTENTION" and set(kernels) == set(FUSED)
    capability = (8, 0)
    assert preferred_kernels(gpu) == FUSED == preferred_kernels(torch.device("cpu"))
    monkeypatch.setattr("extract.scoring.attention.sdpa_kernel", _no_kernels)
    monkeypatch.setattr("extract.scoring.budgets.free_unused", lambda: None)
    attempts = Attempts(gpu, Budgets(1, 1, 1), kernels)
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("cuDNN Frontend error: No valid execution plans built.")
        return "done"

    assert attempts.run(call, longest=1) == "done"
    assert attempts.kernels == without_cudnn(kernels)
    assert attempts.refused.startswith("cuDNN refused")


def test_a_failed_self_check_leaves_cudnn_out_and_the_ledger_says_so(tiny_checkpoint, monkeypatch):
    engine = Engine(load(tiny_checkpoint()), check=False)
    engine.attempts.kernels = (FUSED[1], FUSED[0], FUSED[2])
    real, calls = engine.score, []

    def wrong_first(requests: list[Request]) -> object:
        calls.append(engine.attempts.kernels)
        found = real(requests)
        if len(calls) == 1:
            found[0].scores.logprob[5] -= 1.0
        return found

    monkeypatch.setattr(engine, "score", wrong_first)
    engine.check()
    assert FUSED[1] in calls[0] and FUSED[1] not in calls[-1]
    assert "cuDNN refused" in engine.attention
    assert [s.scores.logprob for s in engine.score(requests_of(0))]


def test_a_cache_that_can_not_fit_is_refused_early():
    ids = np.arange(100, dtype=np.int32)
    nowhere = np.zeros(99, dtype=np.int32)
    whole = Request(0, ids, 1, nowhere, nowhere)
    behind = Request(0, ids, 1, nowhere, nowhere, prefix=ids, prefix_length=50)
    refuse_large_caches([whole], bytes_per_token=10, free=0)
    refuse_large_caches([whole, behind], bytes_per_token=10, free=2000)
    with pytest.raises(DoesNotFitError):
        refuse_large_caches([whole, behind], bytes_per_token=10, free=1999)


def test_a_condition_that_does_not_fit_is_refused_alone(workspace, tiny_problem, monkeypatch):
    score = Engine.score

    def small(engine: Engine, requests: list[Request]) -> object:
        # the short texts of the self-check fit
        long = [r for r in requests if len(r.prefix) > 100]
        refuse_large_caches(long, bytes_per_token=10, free=1000)
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", small)
    result = run(tiny_problem(texts=2))
    assert result.exit_code == 5
    files = workspace.tokens.glob("problem=tiny/**/*.parquet")
    units = [unit for file in files for unit in read_units(file)]
    failed = {(unit.condition, unit.status) for unit in units if unit.status == "failed"}
    assert failed == {("retrieval_with", "failed")}
    done = {unit.condition for unit in units if unit.status == "done"}
    assert done == {"full", "window_24", "retrieval_without"}


def test_a_lost_gpu_is_no_shortage():
    attempts = Attempts(torch.device("cpu"), Budgets(1, 1, 1), FUSED)

    def call() -> None:
        raise torch.AcceleratorError(ILLEGAL)

    with pytest.raises(DeviceLostError):
        attempts.run(call, longest=1)


@pytest.mark.parametrize("error", [DeviceLostError("the GPU failed"), NonFiniteLogits()])
@pytest.mark.parametrize("path", ["pieces", "suffix"])
def test_a_failure_inside_the_self_check_is_no_property_of_the_architecture(
    path, error, tiny_checkpoint, monkeypatch
):
    """Once a lost GPU was recorded as an architecture that takes no masks."""
    engine = Engine(load(tiny_checkpoint("cohere")), check=False)
    real = engine.score

    def failing(requests: list[Request]) -> object:
        in_pieces = engine.budgets.text_tokens is not None
        if in_pieces if path == "pieces" else requests[0].prefix_length:
            raise error
        return real(requests)

    monkeypatch.setattr(engine, "score", failing)
    with pytest.raises(type(error)):
        engine.check()
