"""An empty ASGI application on the same web server with the same settings. It shows the cost of a call that does nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.instances import free_port

APPLICATION = "bench.empty:application"
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"15")]


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Reads the body, like every application, and answers."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b'{"status":"ok"}'})


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run the empty application. Yields the root of its URLs."""
    from topics_project import supervisor

    argv = supervisor.web()[:-1]
    port = free_port()
    argv[argv.index("--port") + 1] = str(port)
    process = subprocess.Popen([*argv, APPLICATION], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
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
