"""Submissions: format, official verifier, reproducibility bundle."""
