"""The transformers backend's engine: run a model's backbone, score with its head."""
