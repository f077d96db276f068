"""Key text that evaluators publish, for `tokenmart data import`."""
