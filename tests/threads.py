"""A process in which no thread can start for a while, as on a machine that has none to give."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_thread() -> Iterator[None]:
    """Each new thread would need a stack that is larger than all addresses of the process."""
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)
