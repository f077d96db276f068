"""Extraction on a Ray cluster."""
