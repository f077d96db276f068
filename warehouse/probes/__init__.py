"""Probes: what a problem file asks for, as pure functions from a document's tokens to requests."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
