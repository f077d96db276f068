"""The page of curves, signal and decisions of benchmarks over training."""
