"""The backend that ships: checkpoints in transformers, scored by our engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from extract.backends.backend import Backend, Loading, Scorer
from warehouse.errors import TokenmartError


def report_layers(model: Any, passed: Callable[[float], None]) -> None:
    """Report tokens as they pass each layer: the forward pass of a long text takes minutes."""
    layers = getattr(model.get_decoder(), "layers", ())

    def report(layer: Any, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        states = inputs[0] if inputs else named["hidden_states"]
        passed(states.shape[0] * states.shape[1] / len(layers))

    for layer in layers:
        layer.register_forward_hook(report, with_kwargs=True)


class Transformers(Backend):
    """PyTorch models of the transformers library, on processors and GPUs."""

    kind: ClassVar[str] = "transformers"

    def load(self, loading: Loading) -> Scorer:
        """Load a checkpoint and prepare it for scoring."""
        from extract.devices import free_unused
        from extract.failures import is_out_of_memory
        from extract.models.loading import load_model
        from extract.scoring.engine import Engine

        # what the model before held goes back to the device, not only to its allocator
        free_unused()
        try:
            model = load_model(loading)
            if loading.passed is not None:
                report_layers(model, loading.passed)
            return Engine(
                model,
                sample=loading.sample,
                check=False,
                top_k=loading.top_k,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error)[:80]
        # outside the handler: the traceback refers to what was loaded, and the next model needs it
        raise TokenmartError(
            f"{loading.spec.full_id}: out of memory while loading ({shortage}); use --dtype "
            "bfloat16, --device auto-map or a larger device"
        )
