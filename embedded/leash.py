"""Watches a process, and ends the process when its parent exits for any reason.

PostgreSQL needs this watcher, because the kernel sends PostgreSQL only one soft signal when its parent dies (children.py). The
signal may arrive before PostgreSQL can handle signals, or PostgreSQL may wait without limit for a stopped backend. The watcher
is a separate program that uses only the standard library: `leash.py PARENT CHILD SIGNAL:SECONDS …`. The watcher exits with the
child.
"""

import contextlib
import os
import select
import signal
import sys


def main(parent: int, child: int, ways: list[tuple[int, float]]) -> None:
    # Use descriptors, because a pid can belong to another process later.
    watched = os.pidfd_open(child)
    with contextlib.suppress(ProcessLookupError):  # the parent has already exited, and this process has a new parent
        of_parent = os.pidfd_open(parent)
        if os.getppid() == parent and watched in ended(watched, of_parent):
            return
    for number, seconds in [*ways, (signal.SIGKILL, 0.0)]:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(watched, number)
        if ended(watched, seconds=seconds):
            return


def ended(*descriptors: int, seconds: float | None = None) -> set[int]:
    """Waits until the first of these processes has ended, at most `seconds`. Returns the processes that have ended."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


if __name__ == "__main__":
    parent, child, *ways = sys.argv[1:]
    main(int(parent), int(child), [(int(way.split(":")[0]), float(way.split(":")[1])) for way in ways])
