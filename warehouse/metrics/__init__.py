"""The metric library from outside: families, variants, catalogue, lineage, and how dbt runs."""
