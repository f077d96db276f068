"""The backend that ships: checkpoints in transformers, scored by our engine."""

from __future__ import annotations

from typing import ClassVar

from extract.backends.backend import Backend, Loading, Scorer
from warehouse.errors import TokenmartError


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
            return Engine(
                model, sample=loading.sample, check=False, top_k=loading.top_k, fused=loading.fused
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error)[:80]
        # outside the handler: the traceback refers to what was loaded, and the next model needs it
        raise TokenmartError(
            f"{loading.spec.full_id}: out of memory while loading ({shortage}); use --dtype "
            "bfloat16, --device auto-map or a larger device",
            code="out-of-memory",
            where=loading.spec.full_id,
        )
