"""The transformers backend's engine: load a model, run its backbone, score with its head."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
