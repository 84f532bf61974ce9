"""A client of the WebSocket on the library `websockets`, for tests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.deadlines import DEADLINE

Frame = dict[str, Any]


class Socket:
    """An open socket. `send` returns the request_id, `ask` the answer to a command."""

    def __init__(self, port: int, key: str | None = None, query: str = "", **options: Any) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.numbers = itertools.count(1)
        self.frames: list[Frame] = []  # that arrived while the test waited for another one
        self.opening = connect(
            f"ws://127.0.0.1:{port}/v0/ws{query}",
            proxy=None,
            open_timeout=DEADLINE,
            max_size=None,
            **{"additional_headers": headers, "compression": None, **options},
        )
        self.connection: ClientConnection = self.opening.__enter__()

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.opening.__exit__(None, None, None)

    def send(self, op: str, **fields: Any) -> int:
        number = next(self.numbers)
        self.connection.send(json.dumps({"op": op, "request_id": number, **fields}))
        return number

    def receive(self) -> Frame:
        return json.loads(self.connection.recv(DEADLINE))

    def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        """The first frame that is `wanted`. Keeps the others in `frames`."""
        for place, frame in enumerate(self.frames):
            if wanted(frame):
                return self.frames.pop(place)
        while not wanted(frame := self.receive()):
            self.frames.append(frame)
        return frame

    def closed(self) -> int:
        """The code with which the server ends the socket."""
        with pytest.raises(ConnectionClosed) as caught:
            self.until(lambda frame: False)
        assert caught.value.rcvd is not None
        return caught.value.rcvd.code

    def next(self, *ops: str) -> Frame:
        """The first frame of one of these kinds."""
        return self.until(lambda frame: frame["op"] in ops)

    def answer(self, number: int) -> Frame:
        return self.until(lambda frame: frame.get("request_id") == number)

    def ask(self, op: str, **fields: Any) -> Frame:
        return self.answer(self.send(op, **fields))

    def publish(self, topic: str, *values: Any, **fields: Any) -> Frame:
        return self.ask("publish", topic=topic, records=[{"data": value} for value in values], **fields)
