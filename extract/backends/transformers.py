"""The backend that ships: checkpoints in transformers, scored by our engine."""

from __future__ import annotations

import gc
from typing import ClassVar

from extract.backends.backend import Backend, Loading, Scorer
from warehouse.errors import TokenmartError


class Transformers(Backend):
    """PyTorch models of the transformers library, on processors and GPUs."""

    kind: ClassVar[str] = "transformers"

    def load(self, loading: Loading) -> Scorer:
        """Load a checkpoint and prepare it for scoring."""
        import torch

        from extract.device_errors import is_out_of_memory
        from extract.scoring.engine import Engine
        from extract.scoring.loading import load_model

        # what the model before held goes back to the device, not only to its allocator
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        try:
            model = load_model(
                loading.checkpoint,
                loading.spec,
                device=loading.device,
                dtype=loading.dtype,
                attention=loading.attention,
                working=loading.working,
                cache_share=loading.cache_share,
            )
            return Engine(
                model,
                compiled=loading.compiled,
                sample=loading.sample,
                check=False,
                top_k=loading.top_k,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error)[:80]
        # outside the handler: the traceback holds what was loaded, and the next model needs it
        raise TokenmartError(
            f"{loading.spec.full_id}: out of memory while loading ({shortage}); use --dtype "
            "bfloat16, --device auto-map or a larger device"
        )
