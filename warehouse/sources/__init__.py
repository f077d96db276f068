"""Where documents and weights come from, and the record that keeps them the same."""
