"""The transformers backend's engine: load a model, run its backbone, score with its head."""
