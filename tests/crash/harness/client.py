"""One connection to the service, kept while it lasts. Whoever calls is answered, or finds out within the deadline."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import Any, NamedTuple

DEADLINE = 20.0  # seconds; no fault lasts as long, and none may be felt longer


class Unanswered(Exception):
    """The connection was refused or broke: the request was carried out, or was not."""


class Hung(Unanswered):
    """Nothing came within the deadline."""


class Reply(NamedTuple):
    status: int
    json: Any

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Client:
    def __init__(self, port: int, deadline: float = DEADLINE, host: str = "127.0.0.1") -> None:
        self.port, self.deadline, self.host = port, deadline, host
        self.connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None) -> Reply:
        """Returns the answer with any status. Raises Unanswered, or Hung."""
        self.connection = self.connection or http.client.HTTPConnection(self.host, self.port, timeout=self.deadline)
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            self.connection.request(method, path, content, headers)
            response = self.connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            what = f"{method} {path}"
            if isinstance(error, TimeoutError):
                raise Hung(f"{what}: no answer within {self.deadline:.0f} s") from error
            raise Unanswered(f"{what}: {error!r}") from error
        try:
            return Reply(response.status, json.loads(text))
        except ValueError as error:
            raise Unanswered(f"{method} {path}: {response.status} without JSON: {text[:80]!r}") from error

    def insist(self, method: str, path: str, body: Any = None, seconds: float = 60) -> Any:
        """The body of a success, however often it has to be asked for. Raises Unanswered when the time is over."""
        until = time.monotonic() + seconds
        while True:
            try:
                reply = self.call(method, path, body)
                if reply.status < 300:
                    return reply.json
                error = Unanswered(f"{method} {path}: {reply.status} {reply.json}")
            except Unanswered as unanswered:
                error = unanswered
            if time.monotonic() > until:
                raise error
            time.sleep(0.1)

    def close(self) -> None:
        """The next call connects anew, and may reach another process."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.close()
            self.connection = None
