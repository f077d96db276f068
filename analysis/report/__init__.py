"""The HTML report, its figures, and the token viewer."""
