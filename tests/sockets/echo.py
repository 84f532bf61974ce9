"""A web server whose WebSockets send each message back, for Autobahn's test suite: `python -m tests.sockets.echo`.

The suite expects an echo. Everything else is the product's: the HTTP server, the handshake, frames, closes and bounds. The
environment is that of a web process.
"""

from __future__ import annotations

import socket
import sys

from http1 import Shares
from topics_project import web


def serve(listener: socket.socket, shares: Shares, slot: int) -> int:
    import topics_project.serve  # noqa: F401  It sets Django up.
    from sockets.socket import Socket

    Socket.begin = lambda self, message, started: self.send(message)  # type: ignore[method-assign, assignment]
    return work(listener, shares, slot)


if __name__ == "__main__":
    work = web.work
    web.work = serve
    sys.exit(web.main())
