"""Plugins that ship with the core: one folder per subject, each removable."""
