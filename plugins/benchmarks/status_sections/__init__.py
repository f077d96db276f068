"""The table of benchmarks of `tokenmart status`."""
