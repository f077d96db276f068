"""Benchmarks judged by their scores over training: signal early on, and what decides best."""
