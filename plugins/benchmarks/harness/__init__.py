"""Run benchmarks of lm-evaluation-harness on our engine and store every token."""
