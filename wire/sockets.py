"""The sockets below the web server, which gives no hold on them: what the kernel keeps for a client that does not read.

The web server's sockets are found among the files that this process has open. The kernel hands what is set on a
listening socket on to every connection that comes in by it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

# The kernel takes no more from us while so much waits to be sent. What is on its way to the client comes on top, so a
# client that is far away is served as fast as before; a client that does not read holds this instead of megabytes.
MOST_UNSENT_BYTES = 128 * 1024
# A client that takes nothing for so long is gone, or may as well be: its connection is closed, and all that was kept
# for it is given back. One that comes back goes on from its Last-Event-ID.
STALLED_MS = 300_000


def tune_listeners() -> bool:
    """Set on this process's listening sockets what their connections are to have. Returns whether there are any."""
    ports = set()
    for held in tcp_sockets():
        with held:
            if held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(held.getsockname()[1])
                tune(held)
    for held in tcp_sockets():
        with held:
            if held.getsockname()[1] in ports:  # came in before we had set it
                tune(held)
    return bool(ports)


def tune(held: socket.socket) -> None:
    for name, value in (("TCP_NOTSENT_LOWAT", MOST_UNSENT_BYTES), ("TCP_USER_TIMEOUT", STALLED_MS)):
        if hasattr(socket, name):  # on Linux both are there
            held.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def cut(client: Sequence[Any], server: Sequence[Any]) -> bool:
    """Shut the connection between these addresses down, whatever waits to be sent on it. Returns whether there is one.

    We hold a duplicate of the file while we look at it, so nobody can close it and open another under its number.
    """
    peer, port = (client[0], int(client[1])), int(server[1])  # granian tells ports as text
    for held in tcp_sockets():
        with held:
            try:
                if held.getpeername()[:2] == peer and held.getsockname()[1] == port:
                    # What waits in the kernel is dropped with it, not kept until the client takes it after all.
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    held.shutdown(socket.SHUT_RDWR)
                    return True
            except OSError:  # it listens, or its client is gone already
                continue
    return False


def tcp_sockets() -> Iterator[socket.socket]:
    """Duplicates of this process's TCP sockets, each to be closed by whoever takes it."""
    for name in os.listdir("/dev/fd"):
        try:
            file = os.dup(int(name))
        except OSError:  # closed since we looked
            continue
        try:
            held = socket.socket(fileno=file)
        except OSError:  # no socket
            os.close(file)
            continue
        if held.family in (socket.AF_INET, socket.AF_INET6) and held.type == socket.SOCK_STREAM:
            yield held
        else:
            held.close()
