"""A call within a device's memory: tried again with an emptied cache, then at half the budgets."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from extract.device_errors import NoKernelError, is_out_of_memory, raise_if_lost
from extract.scoring import attention
from extract.scoring.budgets import Budgets
from warehouse.errors import TokenmartError

Result = TypeVar("Result")


def free_bytes(device: torch.device) -> int:
    """Free memory of a GPU: free for all processes, and reserved but unused by our allocator."""
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + int(unused)


def give_back(device: torch.device) -> None:
    """Return what nothing refers to, to the host and to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


class Attempts:
    """Batch sizes on a device, and the kernels used.

    Attributes:
        device: where.
        budgets: those of the next attempt; `run` puts back what they were.
        kernels: fused attention kernels, in the order of preference.
        refused: why cuDNN's kernel is not used though it was preferred; empty where it is.
    """

    def __init__(self, device: torch.device, budgets: Budgets, kernels: attention.Kernels) -> None:
        self.device = device
        self.budgets = budgets
        self.kernels = kernels
        self.refused = ""

    def run(self, call: Callable[[], Result], longest: int) -> Result:
        """The result of a call that reads `budgets`, halving them while memory runs out.

        Args:
            call: recomputes everything.
            longest: tokens of its longest text.

        Raises:
            TokenmartError: out of memory at the smallest budgets, or no kernel supports the
                tensors.
            DeviceLostError: the GPU failed.
        """
        budgets, emptied = self.budgets, self.device.type != "cuda"
        try:
            while True:
                found, shortage = self._attempt(call)
                if found is not None:
                    return found[0]
                give_back(self.device)
                if not shortage:
                    continue
                if not emptied:
                    # what was in the way may have been earlier texts' segments of other sizes
                    emptied = True
                    continue
                smaller = self.budgets.halved(longest)
                if smaller is None:
                    raise TokenmartError(
                        f"out of memory even at the smallest batch ({shortage}); use --dtype "
                        "bfloat16, a larger device, or fewer --max-tokens"
                    )
                self.budgets = smaller
        finally:
            self.budgets = budgets

    def _attempt(self, call: Callable[[], Result]) -> tuple[tuple[Result] | None, str]:
        """The result, or None and what was short; nothing of a failed call is kept.

        The traceback of an exception keeps every frame alive, and with it what did not fit: so it
        is gone when this returns.
        """
        try:
            with torch.inference_mode(), attention.fused_kernels(self.device, self.kernels):
                return (call(),), ""
        except NoKernelError as error:
            if attention.without_cudnn(self.kernels) == self.kernels:
                raise
            self.refuse_cudnn(error.format_message())
            return None, ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise_if_lost(error)
                raise
            return None, str(error)[:80]

    def refuse_cudnn(self, reason: str) -> None:
        """Continue without cuDNN's attention; the ledger records the reason."""
        self.kernels = attention.without_cudnn(self.kernels)
        self.refused = f"cuDNN refused: {reason[:100]}"
