"""Schedulers for `tokenmart extract --on`."""
