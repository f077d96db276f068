"""Read, check and store tables of benchmark scores, and define problems of kind `table`."""
