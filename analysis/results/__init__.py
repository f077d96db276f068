"""Committed results: small tables with their provenance, and what is said of them."""
