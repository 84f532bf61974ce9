"""A callback server over real TLS, that answers as a test wants it to."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

import trustme

from tests.instances import free_port


@dataclass
class Batch:
    """A request that came in whole, and what it was answered (None: nothing yet, or never)."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.body)
        return found

    @property
    def username(self) -> str | None:
        scheme, _, encoded = self.headers.get("authorization", "").partition(" ")
        return base64.b64decode(encoded).decode().partition(":")[0] if scheme == "Basic" else None

    @property
    def id(self) -> str:
        return self.headers["topics-batch-id"]

    @property
    def attempt(self) -> int:
        return int(self.headers["topics-attempt"])


Answer = Callable[["Handler", Batch], int | None]  # the status to answer; None: the answer is none, or was given


class Served:
    """A server in a thread of its own, over TLS if an authority makes it a certificate."""

    server: HTTPServer

    def serve(self, server: HTTPServer, ca: trustme.CA | None) -> None:
        self.server = server
        if ca is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ca.issue_cert("localhost", "127.0.0.1").configure_cert(context)
            # The handshake in the connection's own thread, or one that hangs would keep the others out.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@dataclass
class Receiver(Served):
    """`answer` decides what becomes of a batch; every batch is remembered in the order of coming."""

    ca: trustme.CA | None
    port: int = field(default_factory=free_port)
    batches: list[Batch] = field(default_factory=list)
    answer: Answer = lambda handler, batch: 200

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", self.port), type("Of", (Handler,), {"receiver": self}))
        self.serve(server, self.ca)

    def url(self, path: str = "/events") -> str:
        return f"{'http' if self.ca is None else 'https'}://localhost:{self.port}{path}"

    def of(self, path: str) -> list[Batch]:
        return [batch for batch in self.batches if batch.path == path]

    def acknowledged(self, path: str = "/events") -> list[str]:
        """The URLs of the events that were acknowledged, in order."""
        return [event["url"] for batch in self.of(path) if batch.status in (200, 204) for event in batch.events]


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        batch = Batch(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.receiver.batches.append(batch)
        status = self.receiver.answer(self, batch)
        if status is not None:
            batch.status = status
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def reset(self) -> None:
        """End the connection as a crash does, without an answer."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            socket.socket(fileno=self.connection.detach()).close()

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        pass


def hang(seconds: float = 60) -> Answer:
    """Answers nothing for so long."""

    def answer(handler: Handler, batch: Batch) -> int | None:
        time.sleep(seconds)
        return None

    return answer


def reset(handler: Handler, batch: Batch) -> None:
    handler.reset()


def early_hints(handler: Handler, batch: Batch) -> None:
    """Answers 200 behind an answer that is not the last one."""
    final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + final)
    batch.status = 200
