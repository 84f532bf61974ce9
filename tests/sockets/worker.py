"""A member of a group on a WebSocket: `python -m tests.sockets.worker PORT TOPIC GROUP MEMBER SESSION_MS LOG`.

It writes the log of tests/groups/worker.py. It joins and commits over the socket, and leaves over HTTP.
"""

from __future__ import annotations

import http.client
import itertools
import json
import signal
import sys
import time
from collections import deque
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.groups import worker


class SocketWorker(worker.Worker):
    LOST = (OSError, http.client.HTTPException, WebSocketException)
    socket: ClientConnection

    def follow(self) -> None:
        """Follows the shares of one session to its end."""
        self.numbers = itertools.count(1)
        self.frames: deque[Any] = deque()  # that arrived while the member waited for an answer
        address = f"ws://127.0.0.1:{self.port}/v0/ws"
        with connect(address, proxy=None, compression=None, max_size=None) as self.socket:
            answer = self.ask("join", {"member": self.member, "session_ms": self.session_ms})
            while self.take(answer["op"], answer) and self.commit():
                answer = self.frames.popleft() if self.frames else json.loads(self.socket.recv())
        self.note("ended", why="stream")

    def ask(self, op: str, fields: Any) -> Any:
        """Returns the answer to a command. Keeps the frames before it."""
        number = next(self.numbers)
        self.socket.send(
            json.dumps({"op": op, "request_id": number, "topic": self.topic, "group": self.group, **fields})
        )
        while (frame := json.loads(self.socket.recv())).get("request_id") != number:
            self.frames.append(frame)
        return frame

    def call(self, name: str, body: Any) -> tuple[int, Any]:
        if name != "commit":
            return super().call(name, body)
        while "retry_after" in (answer := self.ask(name, body)):
            time.sleep(0.02)
        return (409, {"error": answer}) if answer["op"] == "error" else (200, answer)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, worker.leave)
    SocketWorker(*sys.argv[1:]).run()
