"""A watch on one process that ends it when the one that started both dies, however that died.

For PostgreSQL, which the kernel only asks to end when its parent dies (children.py): that one request may come before
PostgreSQL could hear it, or PostgreSQL may wait for a stopped backend for ever. Runs as a program of its own, with
nothing but the standard library: `leash.py PARENT CHILD SIGNAL:SECONDS …`. It ends with the child.
"""

import contextlib
import os
import select
import signal
import sys


def main(parent: int, child: int, ways: list[tuple[int, float]]) -> None:
    # Descriptors instead of numbers: a number may belong to another process by the time it is used.
    watched = os.pidfd_open(child)
    with contextlib.suppress(ProcessLookupError):  # already dead, and buried: then we have another parent by now
        of_parent = os.pidfd_open(parent)
        if os.getppid() == parent and watched in ended(watched, of_parent):
            return
    for number, seconds in [*ways, (signal.SIGKILL, 0.0)]:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(watched, number)
        if ended(watched, seconds=seconds):
            return


def ended(*descriptors: int, seconds: float | None = None) -> set[int]:
    """Returns which of these processes have ended, after waiting for the first at most so long."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


if __name__ == "__main__":
    parent, child, *ways = sys.argv[1:]
    main(int(parent), int(child), [(int(way.split(":")[0]), float(way.split(":")[1])) for way in ways])
