"""The metric library seen from outside: its families, catalogue, near copies, lineage and dbt."""
