"""The SQL door: connections, public views, execution and export, shell, cookbook."""
