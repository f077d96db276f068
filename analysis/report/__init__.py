"""What a person looks at: the report, its figures, the token viewer."""
