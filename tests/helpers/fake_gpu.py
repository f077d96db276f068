"""A CUDA device that does not exist: the real engine runs on it, and what it would do is counted.

`FakeTensorMode` gives tensors shapes, dtypes and devices, but no data. Over it a dispatch mode
keeps the books: bytes alive (a device that can run out), kernels, waits of the host, and the kernel
that scaled dot product attention takes by the rules that PyTorch documents for each of its
backends. Nothing of the project is changed; torch is patched inside `fake_gpu` only.

What it can't show: results, speed, fragmentation, and what a driver does.
"""

from __future__ import annotations

import contextlib
import traceback
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode

MIB = 2**20


@dataclass(frozen=True)
class Card:
    """A GPU by its data sheet: the driver's name, bytes of memory, CUDA's compute capability."""

    name: str
    memory: int
    capability: tuple[int, int]


H100, A100_40, RTX_4090, RTX_4080 = CARDS = (
    Card("NVIDIA H100 80GB HBM3", int(79.2 * 2**30), (9, 0)),
    Card("NVIDIA A100-SXM4-40GB", int(39.4 * 2**30), (8, 0)),
    Card("NVIDIA GeForce RTX 4090", int(23.6 * 2**30), (8, 9)),
    Card("NVIDIA GeForce RTX 4080", int(15.7 * 2**30), (8, 9)),
)

CONTEXT = 600 * MIB
"""What CUDA and its libraries take for themselves."""
aten = torch.ops.aten


@dataclass
class Books:
    """What happened since `Meter.reset`: kernels, waits, attention calls."""

    kernels: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    attention: Counter[str] = field(default_factory=Counter)
    largest_mask_rows: int = 0
    shortages: int = 0


_VIEWS = {
    "view", "_unsafe_view", "t", "transpose", "expand", "slice", "select", "unsqueeze", "squeeze",
    "permute", "detach", "alias", "split", "split_with_sizes", "unbind", "reshape", "as_strided",
    "lift_fresh", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty", "chunk",
}  # fmt: skip


class Meter(TorchDispatchMode):
    """The device: its memory and its books.

    Args:
        card: by its data sheet.
        taken: bytes that other processes hold.
    """

    def __init__(self, card: Card, taken: int = 0) -> None:
        super().__init__()
        self.card = card
        self.room = card.memory - CONTEXT - taken
        self.allocated = self.peak = 0
        self.books = Books()
        self.order: list[SDPBackend] = [SDPBackend.FLASH_ATTENTION]
        self._storages: dict[int, Any] = {}

    def reset(self) -> None:
        """Reset; the peak is the present reservation."""
        self.books, self.peak = Books(), self.allocated

    def reset_peak(self) -> None:
        """Reset the peak; allocations are kept."""
        self.peak = self.allocated

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a tensor's memory until nothing refers to it.

        Raises:
            torch.OutOfMemoryError: it is more than there is.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if tensor.device.type != "cuda" or key in self._storages:
            return
        # pages of segments that grow are of 2 MiB; small blocks share them
        unit = 2 * MIB if storage.nbytes() > MIB else 512
        size = -(-storage.nbytes() // unit) * unit
        if self.allocated + size > self.room:
            self.books.shortages += 1
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

        def gone(_: Any) -> None:
            del self._storages[key]
            self.allocated -= size

        self._storages[key] = weakref.ref(storage, gone)

    def wait(self, what: str) -> None:
        """Book that the host waits for the device, and where in the project."""
        frames = [f for f in traceback.extract_stack(limit=80) if "/extract/" in f.filename]
        place = (
            f"{frames[-1].filename.split('/extract/')[-1]}:{frames[-1].lineno}" if frames else ""
        )
        self.books.waits[f"{what} @ {place}"] += 1

    def scalar(self, tensor: torch.Tensor) -> Any:
        """A number of a tensor without data: true, or nothing."""
        if tensor.device.type == "cuda":
            self.wait("scalar")
        if tensor.dtype == torch.bool:
            return True
        return 0.0 if tensor.dtype.is_floating_point else 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            return self.scalar(args[0])
        if name in ("_pin_memory", "pin_memory"):
            return args[0]
        if name == "is_pinned":
            return True
        if func is aten.mm.dtype:
            left, right = args[:2]
            dtype = args[2] if len(args) > 2 else kwargs["out_dtype"]
            out = torch.empty(left.shape[0], right.shape[1], dtype=dtype, device=left.device)
            self.hold(out)
            self.books.kernels += 1
            return out
        if func._can_decompose():
            with self:
                done = func.decompose(*args, **kwargs)
            if done is not NotImplemented:
                return done
        inputs = _tensors((args, kwargs))
        _refuse_mixed(name, inputs)
        out = func(*args, **kwargs)
        outputs = _tensors(out)
        if name == "_to_copy" and inputs[0].numel() and not kwargs.get("non_blocking"):
            kinds = {inputs[0].device.type, outputs[0].device.type}
            if len(kinds) > 1 and "cuda" in kinds:
                self.wait("copy")
        if any(tensor.device.type == "cuda" for tensor in (*inputs, *outputs)):
            for tensor in outputs:
                self.hold(tensor)
            self.books.kernels += name not in _VIEWS
        return out


def _tensors(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _refuse_mixed(name: str, inputs: list[torch.Tensor]) -> None:
    """Two devices in one operation, or two dtypes in one product: a real GPU refuses both."""
    if name in ("copy_", "_to_copy", "set_"):
        return
    if len({str(tensor.device) for tensor in inputs if tensor.dim()}) > 1:
        raise RuntimeError(f"{name}: tensors on two devices")
    if name in ("mm", "addmm", "bmm") and len({tensor.dtype for tensor in inputs}) > 1:
        raise RuntimeError(f"{name}: {[tensor.dtype for tensor in inputs]}")


def kernel_for(meter: Meter, query: Any, key: Any, value: Any, mask: Any, causal: bool,
               gqa: bool) -> str:  # fmt: skip
    """The first kernel of the order that takes these tensors, without gradients.

    Raises:
        RuntimeError: none does.
    """
    half = query.dtype in (torch.bfloat16, torch.float16)
    width = query.shape[-1]
    same = width == key.shape[-1] == value.shape[-1]
    equal = query.shape[1] == key.shape[1] == value.shape[1]
    grouped = equal or (gqa and query.shape[1] % key.shape[1] == 0)
    dense = query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    square = query.shape[-2] == key.shape[-2]
    ampere = meter.card.capability >= (8, 0)
    able = {
        "flash": half and ampere and mask is None and same and width <= 256
        and (not causal or square) and grouped and dense,
        "cudnn": half and ampere and width <= 128 and width % 8 == 0 and key.shape[2] != 1
        and grouped and dense,
        "efficient": same and width % (8 if half else 4) == 0 and equal and dense,
    }  # fmt: skip
    for backend in meter.order:
        name = backend.name.removesuffix("_ATTENTION").lower()
        if able.get(name):
            return name
    raise RuntimeError("No available kernel. Aborting execution.")


def _attention(meter: Meter) -> Any:
    """`scaled_dot_product_attention` as the chosen kernel would allocate and compute."""

    def sdpa(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        kind = kernel_for(meter, query, key, value, attn_mask, is_causal, enable_gqa)
        batch, heads, new, width = query.shape
        if attn_mask is not None:
            meter.books.largest_mask_rows = max(meter.books.largest_mask_rows, new)
            if attn_mask.dtype == torch.bool:
                added = torch.zeros_like(attn_mask, dtype=query.dtype)
                added.masked_fill_(attn_mask.logical_not(), -float("inf"))
        form = "mask" if attn_mask is not None else "causal" if is_causal else "full"
        meter.books.attention[f"{kind}, {form}"] += 1
        out = torch.empty(batch, new, heads, width, dtype=query.dtype, device=query.device)
        meter.books.kernels += 1
        return out.transpose(1, 2)

    return sdpa


def _choice(meter: Meter) -> Any:
    def choice(
        query: Any,
        key: Any,
        value: Any,
        mask: Any = None,
        dropout: float = 0.0,
        causal: bool = False,
        *,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> int:
        name = kernel_for(meter, query, key, value, mask, causal, enable_gqa)
        return int(getattr(SDPBackend, f"{name.upper()}_ATTENTION").value)

    return choice


def _getitem(real: Any) -> Any:
    """`Tensor.__getitem__` in Python: a build without CUDA has no device guard for that in C++."""

    def one(tensor: Any, index: Any) -> Any:
        if tensor.device.type != "cuda":
            return real(tensor, index)
        parts = list(index) if isinstance(index, tuple) else [index]
        taken = sum(each is not None and each is not Ellipsis for each in parts)
        if not any(each is Ellipsis for each in parts):
            parts.append(Ellipsis)
        at = next(n for n, each in enumerate(parts) if each is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (tensor.dim() - taken)
        dim, gathered = 0, {}
        for each in parts:
            if each is None:
                tensor = tensor.unsqueeze(dim)
            elif isinstance(each, slice):
                if each != slice(None):
                    tensor = aten.slice(tensor, dim, each.start, each.stop, each.step or 1)
            elif isinstance(each, torch.Tensor):
                gathered[dim] = each
            else:
                tensor = aten.select(tensor, dim, int(each))
                continue
            dim += 1
        if gathered:
            return aten.index(tensor, [gathered.get(n) for n in range(max(gathered) + 1)])
        return tensor

    return one


@dataclass
class _Stream:
    meter: Meter

    def synchronize(self) -> None:
        self.meter.wait("synchronize")


@contextlib.contextmanager
def fake_gpu(card: Card, taken: int = 0) -> Iterator[Meter]:
    """Everything inside sees one CUDA device of this kind, of which others hold `taken` bytes."""
    from transformers import masking_utils

    from extract.scoring import attention, engine  # noqa: F401  (imported before torch is patched)

    meter = Meter(card, taken)
    real_empty, real_numpy = torch.empty, torch.Tensor.numpy

    def empty(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
        return real_empty(*args, **kwargs)

    def numpy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(tensor, torch._subclasses.FakeTensor):
            return real_numpy(tensor, *args, **kwargs)
        if tensor.device.type == "cuda":
            raise TypeError("can't convert a tensor of a CUDA device to numpy")
        kind: Any = np.bool_ if tensor.dtype == torch.bool else getattr(np, str(tensor.dtype)[6:])
        return np.zeros(tuple(tensor.shape), dtype=kind)

    def scalar(name: str) -> Any:
        real = getattr(torch.Tensor, name)
        return lambda tensor: meter.scalar(tensor) if tensor.device.type == "cuda" else real(tensor)

    @contextlib.contextmanager
    def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
        before, meter.order = meter.order, list(backends)
        try:
            yield
        finally:
            meter.order = before

    cuda = {
        "mem_get_info": lambda device=None: (meter.room - meter.allocated, card.memory),
        "memory_reserved": lambda device=None: meter.allocated,
        "memory_allocated": lambda device=None: meter.allocated,
        "max_memory_allocated": lambda device=None: meter.peak,
        "max_memory_reserved": lambda device=None: meter.peak,
        "reset_peak_memory_stats": lambda device=None: meter.reset_peak(),
        "empty_cache": lambda: None,
        "current_stream": lambda device=None: _Stream(meter),
        "synchronize": lambda device=None: meter.wait("synchronize"),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "is_bf16_supported": lambda *args, **options: card.capability >= (8, 0),
        "get_device_capability": lambda device=None: card.capability,
        "get_device_name": lambda device=None: card.name,
    }
    with contextlib.ExitStack() as stack:
        # entered before `is_available` is patched: without a device it sets a guard for a fake one
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(patch.object(FakeTensorMode, "avoid_device_init", True))
        for target, name, new in (
            (torch, "empty", empty),
            (torch.Tensor, "numpy", numpy),
            *((torch.Tensor, n, scalar(n)) for n in ("__float__", "__bool__", "__int__", "item")),
            (torch.Tensor, "__getitem__", _getitem(torch.Tensor.__getitem__)),
            *((torch.cuda, name, new) for name, new in cuda.items()),
            (torch, "_fused_sdp_choice", _choice(meter)),
            (torch.nn.functional, "scaled_dot_product_attention", _attention(meter)),
            (attention, "sdpa_kernel", sdpa_kernel),
            # a fake tensor looks like one that is traced, and then masks are always made
            (masking_utils, "is_tracing", lambda *args: False),
        ):
            stack.enter_context(patch.object(target, name, new))
        stack.enter_context(meter)
        yield meter
