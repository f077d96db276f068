"""Commands: `merge` and `rank`."""
