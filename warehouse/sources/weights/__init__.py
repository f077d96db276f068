"""Sources of weights: one kind a file, found here and in $TOKENMART_PLUGINS."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
