"""Requests of a process to the kernel about its parent."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None, number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent dies. Does nothing on systems other than Linux.

    `parent`: the id of the parent process. If the parent is dead by now, the kernel would watch another process. Then this
    function sends the signal itself.
    """
    if sys.platform == "linux":
        # A Python handler only notes the signal. This process is about to exec another program, which would miss the note.
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), number)
