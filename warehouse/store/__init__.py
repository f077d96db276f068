"""How rows lie on disk: one schema, the ledger, whole units, their provenance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
