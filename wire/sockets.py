"""Options of the web server's sockets. They limit the kernel's memory for a client that does not read.

The web server has no interface for socket options. This module finds the sockets among the open files of this process. A
connection inherits the options of its listening socket.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

# The kernel accepts no more data from us while this many bytes wait to be sent. Bytes on their way to the client do not count, so
# a distant client is served as fast as before. A client that does not read holds this memory instead of megabytes.
MOST_UNSENT_BYTES = 128 * 1024
# If a client takes nothing for this time, the kernel closes the connection and frees the memory. A client that returns resumes
# from its Last-Event-ID.
STALLED_MS = 300_000


def tune_listeners() -> bool:
    """Set the options of this process's listening sockets and their connections. Returns whether a socket listens."""
    ports = set()
    for held in tcp_sockets():
        with held:
            if held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(held.getsockname()[1])
                tune(held)
    for held in tcp_sockets():
        with held:
            if held.getsockname()[1] in ports:  # a connection that came before the option was set
                tune(held)
    return bool(ports)


def tune(held: socket.socket) -> None:
    for name, value in (("TCP_NOTSENT_LOWAT", MOST_UNSENT_BYTES), ("TCP_USER_TIMEOUT", STALLED_MS)):
        if hasattr(socket, name):  # Linux has both
            held.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def cut(client: Sequence[Any], server: Sequence[Any]) -> bool:
    """Shut the connection between these addresses down and drop its unsent data. Returns whether the connection exists.

    This function checks a duplicate of each file. No other code can close the duplicate and open another file under its number.
    """
    peer, port = (client[0], int(client[1])), int(server[1])  # granian gives ports as text
    for held in tcp_sockets():
        with held:
            try:
                if held.getpeername()[:2] == peer and held.getsockname()[1] == port:
                    # The kernel drops its unsent data at once and does not wait for the client to take them.
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    held.shutdown(socket.SHUT_RDWR)
                    return True
            except OSError:  # the socket listens, or its client has already disconnected
                continue
    return False


def tcp_sockets() -> Iterator[socket.socket]:
    """Yields duplicates of this process's TCP sockets. The caller must close each of them."""
    for name in os.listdir("/dev/fd"):
        try:
            file = os.dup(int(name))
        except OSError:  # closed since listdir
            continue
        try:
            held = socket.socket(fileno=file)
        except OSError:  # not a socket
            os.close(file)
            continue
        if held.family in (socket.AF_INET, socket.AF_INET6) and held.type == socket.SOCK_STREAM:
            yield held
        else:
            held.close()
