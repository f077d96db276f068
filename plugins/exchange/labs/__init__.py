"""Models of attached exports in a ranking."""
