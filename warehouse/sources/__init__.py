"""Sources of documents and weights, and the record that pins their content."""
