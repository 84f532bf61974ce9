"""Requests byte by byte, for what no decent client sends."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.deadlines import DEADLINE


@dataclass
class Answered:
    status: int
    head: str
    body: bytes


def request(method: str, path: str, *headers: str) -> bytes:
    """The head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *headers, "", ""]).encode()


@contextmanager
def connection(port: int, seconds: float = DEADLINE) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as opened:
        yield opened


def answer(opened: socket.socket) -> Answered:
    """The one answer that comes. It may come, and the connection end, before all of the request was sent."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += part(opened, received)
    head, _, body = received.partition(b"\r\n\r\n")
    text = head.decode().lower()
    length = int(text.partition("content-length: ")[2].partition("\r\n")[0])
    while len(body) < length:
        body += part(opened, body)
    return Answered(int(text.split()[1]), text, body)


def part(opened: socket.socket, before: bytes) -> bytes:
    got = opened.recv(65536)
    assert got, f"the connection ended after {before!r}"
    return got


def ask(port: int, sent: bytes) -> Answered:
    with connection(port) as opened:
        opened.sendall(sent)
        return answer(opened)
