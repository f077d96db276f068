"""Questions in SQL: connections, public views, execution and export, cookbook."""
