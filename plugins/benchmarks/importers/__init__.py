"""Formats of benchmark results for `tokenmart data import`."""
