"""What happens to a process when its parent ends."""

from __future__ import annotations

import ctypes
import signal
import sys

# Source: prctl(2).
_PR_SET_PDEATHSIG = 1


def signal_at_parents_end(number: signal.Signals) -> None:
    """Makes Linux send this process a signal when its parent ends, also by SIGKILL; does nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
