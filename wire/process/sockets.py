"""The web server's sockets: their options, which limit the kernel's memory for a client that does not read, and two questions to
the kernel about a client."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import select
import socket
import struct
import termios

# The kernel accepts no more data from us while this many bytes wait to be sent. Bytes on their way to the client do not count, so
# a distant client is served as fast as before. A client that does not read holds this memory instead of megabytes.
MOST_UNSENT_BYTES = 128 * 1024
# If a client takes nothing for this time, the kernel closes the connection and frees the memory. A client that returns resumes
# from its Last-Event-ID.
STALLED_MS = 300_000
BACKLOG = 4096  # connections that wait for a process to accept them
# How a client has left: it has ended its side, which Linux alone tells, or the connection has ended.
ENDED, RESET = getattr(select, "POLLRDHUP", 0), select.POLLHUP | select.POLLERR


def listener(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Its connections inherit its options. Raises OSError."""
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((host.strip("[]"), port))
    for name, value in (("TCP_NOTSENT_LOWAT", MOST_UNSENT_BYTES), ("TCP_USER_TIMEOUT", STALLED_MS)):
        if hasattr(socket, name):  # Linux has both
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    opened.listen(BACKLOG)
    opened.setblocking(False)
    return opened


def untaken_bytes(transport: asyncio.Transport) -> int:
    """Returns the number of bytes in this process and in our kernel that the client's kernel has not acknowledged.

    A kernel without TIOCOUTQ for sockets counts as empty.
    """
    held = transport.get_extra_info("socket")
    if held is None or transport.is_closing():
        return 0
    in_kernel = 0
    with contextlib.suppress(OSError):
        (in_kernel,) = struct.unpack("i", fcntl.ioctl(held.fileno(), termios.TIOCOUTQ, bytes(4)))
    return transport.get_write_buffer_size() + in_kernel


def departure(transport: asyncio.Transport) -> int:
    """Returns how the client has left, as flags of ENDED and RESET. 0: it is there.

    For a connection from which this process does not read: the end comes behind bytes that nobody has read yet.
    """
    held = transport.get_extra_info("socket")
    if held is None or transport.is_closing():
        return 0
    kernel = select.poll()
    kernel.register(held.fileno(), ENDED)
    return sum(flags for _, flags in kernel.poll(0))
