"""Metric tables against the target: correlations, the leaderboard, the selected metric."""
