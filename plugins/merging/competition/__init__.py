"""Rankings of a competition: win rates, intervals, pairs that are not distinguishable."""
