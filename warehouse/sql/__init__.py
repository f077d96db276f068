"""Questions in SQL: connections, public views, execution and export, shell, cookbook."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
