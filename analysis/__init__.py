"""Metric tables to correlations, verified submissions and the report."""
