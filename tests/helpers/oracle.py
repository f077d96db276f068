"""Scikit-learn as the reference of the MCD filter, where it is one."""

from __future__ import annotations

import pytest
import sklearn

needs_min_cov_det = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="MinCovDet scales distances differently before scikit-learn 1.8",
)
