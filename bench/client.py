"""One client on one kept connection, for measurements of single calls."""

from __future__ import annotations

import http.client
import json
from typing import Any


class Client:
    """Sends calls of /v0 like a user's program."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the answer's body. Raises SystemExit on an error answer."""
        sent = json.dumps(body) if body is not None else None
        headers = {"Content-Type": "application/json"} if sent else {}
        try:
            self.connection.request(method, f"/v0/{path}", sent, headers)
            response = self.connection.getresponse()
        except ConnectionError:  # the server closed the connection because it was idle for too long
            self.connection.close()
            self.connection.request(method, f"/v0/{path}", sent, headers)
            response = self.connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status >= 400:
            raise SystemExit(f"bench: {method} {path}: {answer}")
        return answer

    def append(self, topic: str, records: list[Any]) -> dict[str, Any]:
        return self.call("POST", f"topics/{topic}?return_seqs=false", {"records": [{"data": data} for data in records]})

    def diff(self, topic: str, from_seq: int = 0, limit: int = 256) -> dict[str, Any]:
        return self.call("POST", f"topics/{topic}/diff", {"from_seq": from_seq, "limit": limit})

    def router(self, name: str, **config: Any) -> dict[str, Any]:
        return self.call("PUT", f"routers/{name}", config)
