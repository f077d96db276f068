"""Experts, rules and recipes of merged models, as problem files say them and headers show them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
