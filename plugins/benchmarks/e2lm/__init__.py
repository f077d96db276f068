"""Evaluate benchmarks by their scores over training: early signal and decision accuracy."""
