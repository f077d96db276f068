"""Benchmarks: run them through lm-evaluation-harness, judge them by their scores over training."""
