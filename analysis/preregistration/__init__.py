"""Pre-registration: which metric is meant to predict the target, said before the target is read."""
