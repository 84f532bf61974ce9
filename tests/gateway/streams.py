"""A watch stream, read frame by frame."""

import contextlib
import json
import socket
import time
from typing import Any

from tests.deadlines import DEADLINE
from tests.gateway.running import Running


class Stream:
    def __init__(self, gateway: Running, path: str, *headers: str) -> None:
        self.opened: socket.socket = gateway.connect()
        lines = [f"GET {path} HTTP/1.1", "host: 127.0.0.1", "accept: text/event-stream", *headers, "", ""]
        self.opened.sendall("\r\n".join(lines).encode())
        self.rest = b""
        self.text = b""  # without the framing of chunks
        self.id = ""
        self.is_complete = False  # the last chunk came
        head = self.line_end(b"\r\n\r\n")
        self.status = int(head.split()[1])

    def line_end(self, end: bytes) -> bytes:
        while end not in self.rest:
            part = self.opened.recv(65536)
            if not part:
                raise EOFError
            self.rest += part
        found, _, self.rest = self.rest.partition(end)
        return found

    def more(self) -> None:
        size = int(self.line_end(b"\r\n"), 16)
        if not size:
            self.is_complete = True
            raise EOFError
        while len(self.rest) < size + 2:
            part = self.opened.recv(65536)
            if not part:
                raise EOFError
            self.rest += part
        self.text, self.rest = self.text + self.rest[:size], self.rest[size + 2 :]

    def event(self, *names: str) -> dict[str, Any]:
        """The data of the next event of one of these names. Raises EOFError where the stream ends before.

        A heartbeat is no sign that the event still comes.
        """
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            while b"\n\n" not in self.text:
                self.more()
            frame, _, self.text = self.text.partition(b"\n\n")
            lines = [line.partition(": ") for line in frame.decode().split("\n")]
            fields = {name: value for name, _, value in lines}
            self.id = fields.get("id", self.id)
            if fields.get("event") in names:
                return dict(json.loads(fields["data"]))
        raise AssertionError(f"waited {DEADLINE:.0f} s for {' or '.join(names)}")

    def records(self, number: int) -> dict[str, list[Any]]:
        """The data of the next so many records, by topic."""
        found: dict[str, list[Any]] = {}
        while sum(map(len, found.values())) < number:
            told = self.event("record")
            found.setdefault(told["topic"], []).extend(each["data"] for each in told["records"])
        return found

    def ends_cleanly(self) -> bool:
        """Reads the rest of the stream. Returns whether it has a last chunk. Without one, the connection was cut."""
        with contextlib.suppress(EOFError):
            while True:
                self.more()
        return self.is_complete

    def close(self) -> None:
        self.opened.close()
