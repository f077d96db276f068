"""Exports for other labs: Parquet, a card, and records of the Every Eval Ever schema."""
