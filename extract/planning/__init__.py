"""What has to be computed, where, and what it costs; nothing heavy is loaded for it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
