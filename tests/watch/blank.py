"""Another web server than ours, for pages of other origins."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.instances import free_port


class Blank(BaseHTTPRequestHandler):
    """A page without anything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>blank</title>")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def blank_pages() -> Iterator[int]:
    """Serves blank pages. Yields the port."""
    other = ThreadingHTTPServer(("127.0.0.1", free_port()), Blank)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        yield other.server_address[1]
    finally:
        other.shutdown()
        other.server_close()
