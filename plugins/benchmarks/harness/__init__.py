"""Benchmarks of lm-evaluation-harness on our engine, token by token."""
