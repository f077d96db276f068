"""Tables of benchmark scores over training: read, checked, stored, and as a problem."""
