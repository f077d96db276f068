"""The problem file: what belongs together, its mistakes explained, and what it needs on disk."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
