"""What `tokenmart status` shows of benchmarks."""
