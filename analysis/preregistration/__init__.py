"""Pre-registration: metrics that shall predict the target, recorded before it is read."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
