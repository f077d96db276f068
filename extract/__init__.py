"""Text to per-token statistics: plan, load, score, store."""

import os

# what its warnings are about is refused, checked or recorded here
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
