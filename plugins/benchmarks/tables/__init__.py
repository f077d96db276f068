"""Tables of the store: benchmarks."""
