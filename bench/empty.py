"""An empty handler on the same web server with the same settings. It shows the cost of a call that does nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import uvloop

from base import prefork
from http1 import Request, Response, Server
from tests.instances import free_port

PROCESSES = min(os.cpu_count() or 1, 4)  # as many as the web server has by default
HEADERS = [(b"content-type", b"application/json")]


async def handler(request: Request) -> Response:
    """Reads the body, like every call, and answers."""
    await request.body.read()
    return Response(200, HEADERS, b'{"status":"ok"}')


async def serve(listener: socket.socket) -> int:
    server = Server(handler)
    await server.listen(sock=listener)
    await asyncio.Event().wait()  # until a signal ends the process
    return 0


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run the empty handler. Yields the root of its URLs."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.empty", str(port)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(500):
            with contextlib.suppress(OSError), urllib.request.urlopen(url):
                break
            time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    opened = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    sys.exit(prefork.run(PROCESSES, lambda _: uvloop.run(serve(opened)), name="empty server", patience=1))
