"""Command: `exchange`."""
