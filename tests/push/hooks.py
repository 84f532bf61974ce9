"""What the tests of webhooks share: calls of the API, and webhooks whose retries take milliseconds."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.push.receiver import Batch, Receiver

QUICK = {"schedule_ms": [20, 20]}
_numbers = itertools.count(1)


def new_name(what: str) -> str:
    return f"{what}-{next(_numbers)}"


class Said(NamedTuple):
    status: int
    body: dict[str, Any]


def call(server: Instance, method: str, path: str, body: Any = None, key: str | None = None) -> Said:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}/v0/{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return Said(answer.status, json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            return Said(error.code, json.load(error))


def append(server: Instance, topic: str, *records: Any, tag: str | None = None) -> list[int]:
    body = {"records": [{"data": each} | ({"tag": tag} if tag else {}) for each in records]}
    done = call(server, "POST", f"topics/{topic}", body)
    assert done.status in (200, 201), done
    return list(range(done.body["first_seq"], done.body["last_seq"] + 1))


class Hook:
    """A webhook of a test, with one receiver."""

    def __init__(self, server: Instance, receiver: Receiver, *topics: str, **config: Any) -> None:
        self.server, self.receiver, self.name = server, receiver, new_name("hook")
        self.path = f"/{self.name}"
        self.config = {
            "url": receiver.url(self.path),
            "topics": list(topics),
            "from": "earliest",
            "retry": QUICK,
            **config,
        }
        self.made = self.put()
        self.secret = self.made.body["secret"]

    def put(self, **config: Any) -> Said:
        self.config |= config
        done = call(self.server, "PUT", f"webhooks/{self.name}", self.config)
        assert done.status in (200, 201), done
        return done

    def call(self, method: str, path: str = "", body: Any = None) -> Said:
        return call(self.server, method, f"webhooks/{self.name}{path}", body)

    def get(self) -> dict[str, Any]:
        return self.call("GET").body

    @property
    def calls(self) -> list[Batch]:
        return self.receiver.of(self.path)

    def data(self, *, good: bool = True) -> list[Any]:
        """The data of the records of all calls, in the order of coming. `good`: only of calls that succeeded."""
        return [each["data"] for batch in self.calls if not good or batch.status == 200 for each in records(batch)]

    def until_data(self, wanted: list[Any]) -> None:
        until(lambda: len(self.data()) >= len(wanted), f"{len(wanted)} records to arrive, not {self.data()}")
        assert self.data() == wanted

    def log(self, query: str = "") -> list[dict[str, Any]]:
        done = self.call("GET", f"/deliveries?{query}")
        assert done.status == 200, done
        found: list[dict[str, Any]] = done.body["deliveries"]
        return found


def records(batch: Batch) -> list[dict[str, Any]]:
    body = json.loads(batch.body)
    return body.get("records", [body])  # type: ignore[no-any-return]
