"""Failures of models and devices, and warnings of libraries: one line each, with a remedy."""

from __future__ import annotations

import importlib
import logging
import re
import struct
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from extract.devices import release_memory
from warehouse.errors import StorageError, TokenmartError, first_line, visible
from warehouse.problem.models import ModelSpec

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error_host_allocation_failed",
    "cusolver_status_alloc_failed",
    "hipblas_status_alloc_failed",
    "error_out_of_device_memory",
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


class DeviceLostError(TokenmartError):
    """A GPU failed: this process can't use it any more. Nothing was recorded as failed."""

    exit_code = 6


class NoKernelError(TokenmartError):
    """No attention kernel supports these tensors."""


class DoesNotFitError(TokenmartError):
    """More memory is needed than the device has, even with the smallest batch."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device, one of its libraries, or the host has no memory left."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or _is_runtime_error_with(error, _OUT_OF_MEMORY)


def has_no_plan(error: BaseException) -> bool:
    """Whether a kernel exists but doesn't support such tensors: another one may."""
    return _is_runtime_error_with(error, _NO_PLAN) and not is_out_of_memory(error)


def is_device_lost(error: BaseException) -> bool:
    """Whether a GPU failed in a way that this process does not survive (its context is lost)."""
    if is_out_of_memory(error) or has_no_plan(error):
        return False
    return type(error).__name__ == "AcceleratorError" or _is_runtime_error_with(error, _LOST)


def raise_if_lost(error: BaseException) -> None:
    """End the work of this process when its GPU is lost; other errors are the caller's.

    Raises:
        DeviceLostError: the GPU failed.
    """
    if is_device_lost(error):
        # without its cause, whose frames refer to tensors
        raise DeviceLostError(
            f"the GPU failed ({first_line(error)}); nothing was recorded as failed: run the "
            "same command again, and leave this GPU out with CUDA_VISIBLE_DEVICES if it fails again"
        ) from None


def _is_runtime_error_with(error: BaseException, words: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(each in text for each in words)


class NonFiniteLogits(Exception):
    """The model produced NaN or infinite logits."""


LONGEST_REASON = 200

LIBRARIES = ("huggingface_hub", "torch", "transformers")


@dataclass(frozen=True)
class Failure:
    """A model, or one of its documents, that could not be done; the reason names the remedy."""

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
    release_memory()
    return reason


def explain(error: BaseException, model: str = "") -> str:
    """Any exception of a model's files, libraries or device as one line with its own remedy.

    The model's name, if it is given, is removed from the beginning of the line.
    """
    if isinstance(error, TokenmartError):
        return error.format_message().removeprefix(f"{model}: ")
    if isinstance(error, NonFiniteLogits):
        return f"{error}; try --dtype float32, or fetch the model again"
    text = str(error).strip()
    first = first_line(error).strip().rstrip(".:;")
    first = textwrap.shorten(first, LONGEST_REASON, placeholder=" …") or type(error).__name__
    package = _missing_package(error, text)
    if package:
        return f"needs the package {package}, which is not installed; `pip install {package}`"
    if is_out_of_memory(error):
        return (
            f"out of memory ({first}); use --device auto-map to spread it over all GPUs, another "
            "device, --dtype bfloat16 or fewer --max-tokens"
        )
    if "trust_remote_code" in text:
        return (
            "comes with code of its own; read that code, then set `trust_remote_code: true` in its "
            "source"
        )
    if "model type" in text and "not recognize" in text:
        return (
            f"this version of transformers doesn't support its architecture ({first}); "
            "`pip install -U transformers`"
        )
    damaged = ("SafetensorError", "UnpicklingError", "BadZipFile", "EOFError")
    if type(error).__name__ in damaged or isinstance(error, struct.error):
        return (
            f"a file of its weights is damaged or incomplete ({first}); remove it and fetch the "
            "model again"
        )
    if type(error).__name__.startswith("StrictDataclass"):
        second = " ".join(text.split())[:LONGEST_REASON]
        return f"its config.json has a wrong value ({second}); fetch the model again"
    if "size mismatch" in text or "ignore_mismatched_sizes" in text:
        return (
            "its weights don't have the sizes in its config.json; correct `source` or "
            "`revision`, or fetch the model again"
        )
    if isinstance(error, OSError | KeyError | ValueError):
        return (
            f"can't be loaded ({first}); a file is missing or wrong: fetch the model again, or "
            "correct its `source`"
        )
    return f"failed with {type(error).__name__} ({first}); run it alone with --model to see more"


def _missing_package(error: BaseException, text: str) -> str | None:
    if not isinstance(error, ImportError):
        return None
    named = re.search(r"pip install (?:-\S+ )*[`'\"]?([A-Za-z0-9][\w.\[\]-]*)", text)
    if named:
        return named[1]
    return error.name.split(".")[0] if error.name else None


@contextmanager
def load_errors(spec: ModelSpec) -> Iterator[None]:
    """Turn a loader's exception into one line that names the model.

    Raises:
        TokenmartError: what was raised inside, explained.
    """
    try:
        yield
    except Exception as error:  # loaders raise whatever their libraries raise
        reason = explain(error)
        own = reason.startswith(f"{spec.full_id}:")
        # without its cause, whose frames would keep half a model in memory
        raise TokenmartError(reason if own else f"{spec.full_id}: {reason}") from None


class LibraryMessages:
    """Warnings of Python and of libraries, kept from the terminal; each is printed once, at the
    end.

    Libraries repeat the same for every model; two messages are the same when they come from one
    place in the code.
    """

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], tuple[str, list[str]]] = {}
        self._model = ""

    def lines(self) -> Sequence[str]:
        """The messages, in the order of their first occurrence."""
        lines = []
        for (library, _), (text, models) in self._messages.items():
            others = f" and {len(models) - 1} more" if len(models) > 1 else ""
            lines.append(f"{library}, for {models[0]}{others}: {text}")
        return lines

    def keep(self, library: str, place: str, text: str) -> None:
        """Take one message; not transformers' report of tensors that `load_weights` refuses."""
        if "LOAD REPORT" in text:
            return
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        _, models = self._messages.setdefault(
            (library, place), (textwrap.shorten(first, LONGEST_REASON, placeholder=" …"), [])
        )
        if self._model not in models:
            models.append(self._model)

    @contextmanager
    def about(self, model: str, libraries: Sequence[str] = LIBRARIES) -> Iterator[None]:
        """Collect messages while the block runs, as messages on this model."""
        self._model = model
        handler = _Keeper(self)
        changed = []
        for name in libraries:
            # a library puts its handler up when it is imported
            importlib.import_module(name)
            logger = logging.getLogger(name)
            changed.append((logger, logger.handlers[:], logger.propagate))
            logger.handlers, logger.propagate = [handler], False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.showwarning = self._warned  # type: ignore[assignment]
                yield
        finally:
            for logger, handlers, propagate in changed:
                logger.handlers, logger.propagate = handlers, propagate

    def _warned(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
    ) -> None:
        parts = filename.replace("\\", "/").split("/site-packages/")
        library = parts[-1].split("/")[0] if len(parts) > 1 else "Python"
        self.keep(library, f"{filename}:{lineno}", str(message))


class _Keeper(logging.Handler):
    def __init__(self, messages: LibraryMessages) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        place = f"{record.pathname}:{record.lineno}"
        self.messages.keep(record.name.split(".")[0], place, record.getMessage())


@dataclass
class Outcome:
    """Result of a run: units computed, failures, units left to other processes, warnings.

    `there` counts units that were finished before, `longer` those of them that read more tokens
    than the command line asks for.
    """

    units: int = 0
    tokens: int = 0
    failures: list[Failure] = field(default_factory=list)
    elsewhere: int = 0
    there: int = 0
    longer: int = 0
    messages: LibraryMessages = field(default_factory=LibraryMessages)
