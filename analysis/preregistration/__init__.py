"""Pre-registration: which metric is meant to predict the target, said before the target is read."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
