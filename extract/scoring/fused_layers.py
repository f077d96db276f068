"""Layers of a loaded model as single kernels on GPUs, by the library liger-kernel.

RMSNorm, gated MLP and rotary positions are replaced in the model; nothing else of the library is
used. The engine compares what it scores with them with the model's own forward without them, and
removes them where the two differ.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

OWN_LOSSES = ("cross_entropy", "fused_linear_cross_entropy")
"""Parts of the library that replace the head: ours is not the model's."""


class FusedLayers:
    """The library's layers in one model.

    Attributes:
        name: library and version, for the ledger.

    Args:
        model: of transformers, whose forwards nothing else has replaced.
        apply: the library's function for its architecture.
    """

    def __init__(self, model: Any, apply: Any) -> None:
        self.name = f"liger-kernel {version('liger-kernel')}"
        self._modeling = sys.modules[type(model).__module__]
        before = dict(vars(self._modeling))
        self._before = [(module, dict(vars(module))) for module in model.modules()]
        parameters = inspect.signature(apply).parameters
        apply(model=model, **{name: False for name in OWN_LOSSES if name in parameters})
        # what it changed in the module of the architecture would be in every later model, too:
        # classes are put back, functions are in place while this model runs
        changed = {
            name: value for name, value in vars(self._modeling).items() if before[name] is not value
        }
        self._functions = {
            name: value for name, value in changed.items() if not isinstance(value, type)
        }
        self._originals = {name: before[name] for name in self._functions}
        for name in changed:
            setattr(self._modeling, name, before[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the library's functions inside the block."""
        vars(self._modeling).update(self._functions)
        try:
            yield
        finally:
            vars(self._modeling).update(self._originals)

    def remove(self) -> None:
        """Put the model's own layers back."""
        for module, attributes in self._before:
            vars(module).clear()
            vars(module).update(attributes)
        self._functions = {}


def fuse_layers(model: Any) -> FusedLayers | None:
    """Replace layers of a model on one GPU; None without the library, or where it has none.

    A model that accelerate spreads over devices is left alone: both replace forwards.
    """
    if find_spec("liger_kernel") is None:
        return None
    if any(hasattr(module, "_hf_hook") for module in model.modules()):
        return None
    # it warns of each of its own backends that is not installed
    logging.getLogger("liger_kernel").setLevel(logging.ERROR)
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    apply = MODEL_TYPE_TO_APPLY_LIGER_FN.get(model.config.model_type)
    return None if apply is None else FusedLayers(model, apply)
