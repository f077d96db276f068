"""Probes: what a problem file asks for, as pure functions from a document's tokens to requests."""
