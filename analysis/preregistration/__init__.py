"""Pre-registration: metrics that shall predict the target, recorded before it is read."""
