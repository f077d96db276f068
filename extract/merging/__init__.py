"""Merged models: made from experts, measured, and made again."""
