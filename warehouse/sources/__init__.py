"""Where documents and weights come from, and the record that keeps them the same."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
