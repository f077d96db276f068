"""Benchmarks judged by their scores over training: signal early on, and what decides best."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
