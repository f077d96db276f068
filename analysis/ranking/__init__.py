"""Metric tables against the target: the leaderboard and the selection of a metric."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
