"""Commands: `eval` and `e2lm`."""
