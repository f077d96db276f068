"""Failures of models and devices: one line each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from extract.devices import free_unused
from warehouse.errors import StorageError, TokenmartError, first_line, is_interrupt, visible
from warehouse.problem.models import ModelSpec

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "status_alloc_failed",
    "host_allocation_failed",
    "out_of_device_memory",
)
_NO_PLAN = (
    "no available kernel",
    "no valid execution plan",
    "no execution plan",
    "no valid engine config",
    "cudnn_status_not_supported",
    "cudnn frontend error",
)
_LOST = (
    "cuda error",
    "hip error",
    "cuda driver error",
    "cublas_status_",
    "cudnn_status_",
    "cusolver_status_",
    "device-side assert",
    "gpu is lost",
)


REFERENCE = "reference-failed"
"""Code of the error that the model which others are compared with could not be run."""


class DeviceLostError(TokenmartError):
    """A GPU failed: this process can't use it any more. Nothing was recorded as failed."""

    exit_code = 6
    code = "device-lost"


class NoKernelError(TokenmartError):
    """No attention kernel supports these tensors."""

    code = "no-kernel"


class DoesNotFitError(TokenmartError):
    """More memory is needed than the device has, even with the smallest batch."""

    code = "does-not-fit"


class NonFiniteLogits(TokenmartError):
    """The model produced NaN or infinite logits."""

    code = "non-finite-logits"

    def __init__(self, message: str = "the model produced NaN or infinite logits") -> None:
        super().__init__(f"{message}; try --dtype float32, or fetch the model again")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device, one of its libraries, or the host has no memory left."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or _is_runtime_error_with(error, _OUT_OF_MEMORY)


def may_do_elsewhere(error: BaseException) -> bool:
    """Whether another process may do what failed here: for want of memory, or of a reference."""
    lacks = isinstance(error, TokenmartError) and error.code in (DoesNotFitError.code, REFERENCE)
    return lacks or is_out_of_memory(error)


def has_no_plan(error: BaseException) -> bool:
    """Whether a kernel exists but doesn't support such tensors: another one may."""
    return _is_runtime_error_with(error, _NO_PLAN) and not is_out_of_memory(error)


def raise_if_lost(error: BaseException) -> None:
    """Stop the process's work if the error means that a GPU's context is lost, or Ctrl-C.

    Raises:
        DeviceLostError: the GPU failed.
        KeyboardInterrupt: a query of DuckDB was interrupted.
    """
    if is_interrupt(error):
        raise KeyboardInterrupt from error
    if isinstance(error, DeviceLostError):
        raise error
    if is_out_of_memory(error) or has_no_plan(error):
        return
    if type(error).__name__ == "AcceleratorError" or _is_runtime_error_with(error, _LOST):
        # without its cause, whose frames refer to tensors
        raise DeviceLostError(
            f"the GPU failed ({first_line(error)}); nothing was recorded as failed: run the "
            "same command again, and leave this GPU out with CUDA_VISIBLE_DEVICES if it fails again"
        ) from None


def _is_runtime_error_with(error: BaseException, words: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in text for word in words)


@dataclass(frozen=True)
class Failure:
    """A model, or one of its documents, that could not be done, and why."""

    model: str
    reason: str
    document: int | None = None


def summary(failures: Iterable[Failure]) -> list[str]:
    """One line for each model and kind of reason: reasons that differ in their numbers are one."""
    alike: dict[tuple[str, str], tuple[str, set[int]]] = {}
    for failure in failures:
        key = (failure.model, re.sub(r"\d[\d,.]*", "#", failure.reason))
        _, documents = alike.setdefault(key, (failure.reason, set()))
        if failure.document is not None:
            documents.add(failure.document)
    lines = []
    for (model, _), (reason, documents) in alike.items():
        numbers = ", ".join(map(str, sorted(documents)[:10])) + (", …" * (len(documents) > 10))
        about = f", document{'s' * (len(documents) > 1)} {numbers}" if documents else ""
        lines.append(f"{model}{about}: {reason}")
    return lines


def print_lines(kind: str, lines: Iterable[str], err: bool = True) -> None:
    """Print a line each, such as `warning: …`; to standard error unless `err` is false."""
    for line in lines:
        click.echo(visible(f"{kind}: {line}" if kind else line), err=err)


def why_failed(model: str, job: Callable[[], object]) -> str:
    """Run the job of one model and release its memory; returns why it failed, empty if it didn't.

    Raises:
        StorageError: nothing more can be stored.
        DeviceLostError: the GPU failed.
    """
    reason = ""
    try:
        job()
    except (StorageError, DeviceLostError):
        raise
    except Exception as error:  # whatever it was, the next model is tried
        raise_if_lost(error)
        reason = explain(error, model)
    # after the handler, whose exception keeps the model in memory
    free_unused()
    return reason


LONGEST_REASON = 200


def explain(error: BaseException, model: str = "") -> str:
    """Any exception of a model's files, libraries or device as one line.

    The model's name, if it is given, is removed from the beginning of the line.
    """
    if isinstance(error, TokenmartError):
        return error.format_message().removeprefix(f"{model}: ")
    line = textwrap.shorten(str(error), LONGEST_REASON, placeholder=" …") or "no message"
    if is_out_of_memory(error):
        return (
            f"out of memory ({line}); use --device auto-map to spread it over all GPUs, another "
            "device, --dtype bfloat16 or fewer --max-tokens"
        )
    return f"{type(error).__name__}: {line}"


@contextmanager
def load_errors(spec: ModelSpec, files: Path) -> Iterator[None]:
    """Turn a loader's exception into one line that names the model and its folder or GGUF file.

    Raises:
        TokenmartError: what was raised inside, as one line (code `cannot-load`, the files as its
            place); an error of ours keeps its code and place.
    """
    try:
        yield
    except StorageError:
        raise
    except TokenmartError as error:
        reason = explain(error, spec.full_id)
        code, where = error.code, error.where or spec.full_id
        raise TokenmartError(f"{spec.full_id}: {reason}", code=code, where=where) from None
    except Exception as error:  # loaders raise whatever their libraries raise
        raise_if_lost(error)
        # without its cause, whose frames would keep half a model in memory
        raise TokenmartError(
            f"{spec.full_id}: {files} can't be loaded ({explain(error)}); correct its `source`, or "
            "fetch the model again",
            code="cannot-load",
            where=files,
        ) from None


@dataclass
class Outcome:
    """Result of a run: units computed, failures, units left to other processes.

    `finished_before` counts units that an earlier run had computed.
    """

    units: int = 0
    tokens: int = 0
    failures: list[Failure] = field(default_factory=list)
    elsewhere: int = 0
    finished_before: int = 0
