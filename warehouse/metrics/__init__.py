"""The metric library as seen from outside: list, show, new, near copies, lineage, running dbt."""
