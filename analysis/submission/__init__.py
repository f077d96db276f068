"""Submissions: their format, the official verifier, the reproducibility bundle."""
