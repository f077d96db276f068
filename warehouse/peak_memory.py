"""Peak memory of a process."""

from __future__ import annotations

import resource
import sys


def peak_bytes(who: int = resource.RUSAGE_SELF) -> int:
    """Largest resident set so far, in bytes.

    Args:
        who: this process, or `resource.RUSAGE_CHILDREN` for the largest of those that ended.
    """
    peak = resource.getrusage(who).ru_maxrss
    # macOS counts in bytes, Linux and the BSDs in KiB
    return peak if sys.platform == "darwin" else peak * 1024
