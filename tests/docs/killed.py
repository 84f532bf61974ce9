"""Runs a program, and kills it by SIGKILL before one of the lines of its functions is run.

    python -m tests.docs.killed LINES PROGRAM ARGUMENT…

LINES is the number of lines of functions that the program runs before.
"""

from __future__ import annotations

import inspect
import os
import runpy
import signal
import sys
from types import FrameType
from typing import Any

left, program = int(sys.argv[1]), sys.argv[2]


def called(frame: FrameType, event: str, arg: Any) -> Any:
    """Follows the functions of the program, without its definitions and imports."""
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return line if is_function and code.co_filename == program else None


def line(frame: FrameType, event: str, arg: Any) -> Any:
    global left  # noqa: PLW0603
    if event == "line":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return line


sys.argv = sys.argv[2:]
sys.settrace(called)
runpy.run_path(program, run_name="__main__")
