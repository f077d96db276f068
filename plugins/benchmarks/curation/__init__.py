"""Which items of a benchmark carry signal: read, chosen, tried on other models, printed."""
