"""Tables of the store: rankings and merges."""
