"""How rows lie on disk: one schema, the ledger, whole units, their provenance."""
