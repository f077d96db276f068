"""Problem files of kind `table`."""
