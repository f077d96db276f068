"""Models: from files to weights on a device."""
