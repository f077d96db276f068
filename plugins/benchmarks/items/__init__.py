"""Which items of a benchmark carry signal: their scores, a choice, and what it is worth."""
