"""Entries of a competition ranked fairly: win rates, intervals, and who can't be told apart."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
