"""Metric tables against the target: the leaderboard and the selection of a metric."""
