"""The ground floor: schema, problem files, paths, ledger and DuckDB connections."""
