"""The problem file: what belongs together, its mistakes explained, and what it needs on disk."""
