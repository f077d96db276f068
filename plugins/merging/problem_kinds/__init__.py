"""Problem files of kind `merge`."""
