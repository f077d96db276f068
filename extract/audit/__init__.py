"""Audit: a random sample of stored rows, recomputed by the model's own forward pass."""
