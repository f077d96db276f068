"""Command: `shards`."""
