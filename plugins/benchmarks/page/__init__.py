"""The HTML page on a table of scores: curves and signal over training."""
