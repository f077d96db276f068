"""Entries of a competition ranked fairly: win rates, intervals, and pairs that are not distinguishable."""
