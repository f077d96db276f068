"""Samples and results that the harness wrote elsewhere, as the tables of `eval`."""
