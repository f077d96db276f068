"""Classification of device errors: memory is full, the device is lost, or a kernel has no plan.

The one place that reads the words of torch, CUDA, cuBLAS and cuDNN: scoring halves its budgets by
it, reports explain it, workers end by it.
"""

from __future__ import annotations

from warehouse.errors import TokenmartError

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
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY))
    )


def has_no_plan(error: BaseException) -> bool:
    """Whether a kernel exists but doesn't support such tensors: another one may."""
    if is_out_of_memory(error):
        return False
    return isinstance(error, RuntimeError) and _says(error, _NO_PLAN)


def is_device_lost(error: BaseException) -> bool:
    """Whether a GPU failed in a way that this process does not survive (its context is lost)."""
    return (
        isinstance(error, RuntimeError)
        and not is_out_of_memory(error)
        and not has_no_plan(error)
        and (type(error).__name__ == "AcceleratorError" or _says(error, _LOST))
    )


def raise_if_lost(error: BaseException) -> None:
    """End the work of this process when its GPU is lost; other errors are the caller's.

    Raises:
        DeviceLostError: the GPU failed.
    """
    if is_device_lost(error):
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)[:120]
        # without its cause, whose frames refer to tensors
        raise DeviceLostError(
            f"the GPU failed ({first}); nothing was recorded as failed: run the same command "
            "again, and leave this GPU out with CUDA_VISIBLE_DEVICES if it fails again"
        ) from None


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(each in text for each in words)
