"""Import samples and results that the harness wrote into the tables of `eval`."""
