"""Rows on disk: one schema, the ledger, whole units, their provenance."""
