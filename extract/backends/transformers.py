"""The backend that ships: checkpoints in transformers, scored by our engine."""

from __future__ import annotations

from typing import ClassVar

from extract.backends.backend import Backend, Loading, Scorer


class Transformers(Backend):
    """PyTorch models of the transformers library, on processors and GPUs."""

    kind: ClassVar[str] = "transformers"

    def load(self, loading: Loading) -> Scorer:
        """Load a checkpoint and prepare it for scoring."""
        from extract.scoring.engine import Engine
        from extract.scoring.loading import load_model

        model = load_model(
            loading.checkpoint,
            loading.spec,
            device=loading.device,
            dtype=loading.dtype,
            attention=loading.attention,
            room=loading.room,
        )
        return Engine(model, compiled=loading.compiled, check=False)
