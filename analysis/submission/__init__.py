"""Submissions: their format, the official verifier, the reproducibility bundle."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
