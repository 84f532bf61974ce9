"""A client of the bus, as a test needs it: HTTP Basic, JSON, and names that nobody else uses."""

from __future__ import annotations

import base64
import http.client
import json
import uuid
from dataclasses import dataclass
from typing import Any

from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.push.receiver import Receiver

ROOT = "the-root-key-of-the-tests"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def call(
    port: int, method: str, path: str, token: str | None, body: Any = None, headers: dict[str, str] | None = None
) -> Reply:
    """`body`: bytes as they are, anything else as JSON."""
    sent = dict(headers or {})
    if token is not None:
        sent["Authorization"] = "Basic " + base64.b64encode(f"{token}:x".encode()).decode()
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@dataclass
class Client:
    """Somebody with a token."""

    instance: Instance
    name: str
    token: str

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return call(self.instance.port, method, path, self.token, body, sent)

    def publish(self, topic: str, url: str, type: str = "create", **more: Any) -> None:
        reply = self.call("POST", f"/topics/{topic}", {"type": type, "url": url, **more})
        assert (reply.status, reply.body) == (204, b""), reply

    def subscribe(self, *topics: str, callback: str, uuid: str | None = "me", **more: Any) -> None:
        body = {"topics": list(topics), "callback": callback, "uuid": uuid, **more}
        reply = self.call("POST", "/subscription", body)
        assert (reply.status, reply.body) == (204, b""), reply

    def subscription(self) -> dict[str, Any] | None:
        found = [each for each in self.call("GET", "/subscriptions").json if each["subscriber"] == self.name]
        return found[0] if found else None

    def events(self) -> dict[str, Any]:
        mine = self.subscription()
        assert mine is not None
        found: dict[str, Any] = mine["events"]
        return found

    def drained(self) -> bool:
        mine = self.subscription()
        return mine is None or mine["events"]["queued"] == 0


def new_client(instance: Instance, name: str | None = None) -> Client:
    name = name or f"c-{uuid.uuid4().hex[:10]}"
    made = call(instance.port, "POST", "/api_tokens", ROOT, {"name": name})
    assert made.status == 201, made
    return Client(instance, name, made.json["token"])


def new_topic() -> str:
    """A bus topic that nobody else uses: letters and underscores only."""
    return "t_" + "".join(chr(ord("a") + int(digit, 16)) for digit in uuid.uuid4().hex[:12])


def url(n: int) -> str:
    return f"https://shop.example/orders/{n}"


def until_acknowledged(receiver: Receiver, urls: list[str], path: str = "/events", seconds: float = DEADLINE) -> None:
    """These events, each once, in this order."""
    until(lambda: len(receiver.acknowledged(path)) >= len(urls), f"{len(urls)} events at {path}", seconds)
    assert receiver.acknowledged(path) == urls
