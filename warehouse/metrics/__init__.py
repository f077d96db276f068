"""The metric library seen from outside: its families, catalogue, near copies, lineage and dbt."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
