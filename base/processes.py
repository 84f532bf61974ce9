"""What a process asks of the kernel about those it belongs to."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None, number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent dies. Elsewhere than on Linux: nothing.

    `parent` is the one it was started by: should that be dead by now, the kernel would wait for the death of another.
    """
    if sys.platform == "linux":
        # A handler of Python's would only note the signal, and the program that this process is about to become
        # would never hear of it.
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), number)
