"""Pure statistics over numpy arrays; imports nothing else of the project."""
