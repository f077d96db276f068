"""Looking after a warehouse: check, garbage, doctor."""
