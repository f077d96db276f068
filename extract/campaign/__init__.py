"""A long run in small pieces, within a budget: all models at the same documents and contexts."""
