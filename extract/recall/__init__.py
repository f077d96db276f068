"""The measured target: recall over long contexts, in the manner of RULER."""
