"""Merge experts within rules and limits, evaluate the merges, and rank competition entries."""
