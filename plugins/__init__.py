"""Plugins that ship: what stands on the core, one folder a subject, each removable."""
