"""Text to per-token statistics: plan, load, score, store."""
