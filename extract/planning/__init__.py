"""What has to be computed, where, and what it costs; nothing heavy is loaded for it."""
