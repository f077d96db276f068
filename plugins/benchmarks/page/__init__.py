"""HTML pages on benchmarks: score curves and signal over training, and pairs of models."""
