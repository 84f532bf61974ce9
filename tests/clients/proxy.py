"""A proxy that ends each connection after a random number of bytes, and keeps what clients send."""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import struct
import threading
from collections.abc import Iterator

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
REQUEST = re.compile(rb"\b(?:GET|POST|PUT|DELETE) /v0\S* HTTP/1.1")


class Proxy:
    """`url` leads to a server on `port`. While `bytes` is given, each connection ends after a number of bytes in this range."""

    def __init__(self, port: int, bytes: tuple[int, int] | None = None, seed: int = 7) -> None:
        self.port, self.bytes, self.random = port, bytes, random.Random(seed)
        self.cuts = 0
        self.connections = 0
        self.lost = 0  # of the connections: the first ones that stay open, and carry nothing any more
        self.requests: list[str] = []
        self.sent: list[bytes] = []  # by the clients, as it came
        self.refusals: list[tuple[int, int]] = []  # of the next claims: a status, and the seconds of Retry-After
        self.refused = re.compile(rb"/claim HTTP/1.1")  # the requests that get them
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client: socket.socket) -> None:
        left = self.random.randint(*self.bytes) if self.bytes else None
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            number = self.connections = self.connections + 1
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65536)
                    if number <= self.lost:
                        while client.recv(65536):
                            pass
                        return
                    if not data:
                        return
                    if source is client:
                        self.sent.append(data)
                        self.requests += [found.decode() for found in REQUEST.findall(data)]
                        if self.refusals and self.refused.search(data):
                            self.refuse(client, data)
                            continue
                    other = server if source is client else client
                    other.sendall(data[:left])
                    if left is not None and (left := left - len(data)) <= 0:
                        self.cuts += 1
                        if self.random.random() < 0.5:  # a reset in place of an end
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return

    def refuse(self, client: socket.socket, request: bytes) -> None:
        """Reads the rest of a request, and answers it as another proxy does whose server is away, or has another address."""
        head, _, body = request.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        left = int(length[1]) - len(body) if length else 0
        while left:
            left -= len(client.recv(left))
        status, seconds = self.refusals.pop(0)
        address = f"http://127.0.0.1:{self.port}{head.split()[1].decode()}"
        fields = f"Retry-After: {seconds}\r\nLocation: {address}\r\nContent-Length: 0"
        client.sendall(f"HTTP/1.1 {status} Refused\r\n{fields}\r\n\r\n".encode())


@contextlib.contextmanager
def proxy(port: int, bytes: tuple[int, int] | None = None) -> Iterator[Proxy]:
    made = Proxy(port, bytes)
    try:
        yield made
    finally:
        made.listener.close()
