"""Choose the items of a benchmark that carry signal, and evaluate the choice."""
