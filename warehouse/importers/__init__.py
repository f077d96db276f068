"""Scores made elsewhere: the interface of a format; others are in plugins."""
