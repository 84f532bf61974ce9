"""A client that was written from Routemaster's page alone, and knows nothing of this server: it publishes, subscribes, receives
and unsubscribes."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64decode, b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import trustme

from tests.deadlines import DEADLINE
from tests.instances import Instance, free_port, until
from tests.push.bus import ROOT, new_topic
from tests.push.receiver import Served


class Bus:
    """HTTP Basic with a token as the username, JSON both ways."""

    def __init__(self, base: str, token: str) -> None:
        self.base, self.token = base, token

    def request(self, method: str, path: str, data: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": "Basic " + b64encode(f"{self.token}:x".encode()).decode()}
        body = None
        if data is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(data).encode()
        request = urllib.request.Request(self.base + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None


class Listener(Served):
    """An HTTPS server that acknowledges every batch, and keeps the events."""

    def __init__(self, ca: trustme.CA) -> None:
        self.events: list[dict[str, Any]] = []
        self.usernames: set[str] = set()
        listener = self

        class Receive(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                listener.usernames.add(b64decode(self.headers["Authorization"].split()[1]).decode().split(":")[0])
                listener.events += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.port = free_port()
        self.serve(HTTPServer(("127.0.0.1", self.port), Receive), ca)


def test_a_client_written_from_the_page(bus: Instance, ca: trustme.CA) -> None:
    root = Bus(bus.url, ROOT)
    tokens = [root.request("POST", "/api_tokens", {"name": name})[1]["token"] for name in ("page-pub", "page-sub")]
    publisher, subscriber = (Bus(bus.url, token) for token in tokens)
    topic, listener = new_topic(), Listener(ca)
    assert publisher.request("GET", "/pulse")[0] == 204
    assert publisher.request("POST", f"/topics/{topic}", {"type": "noop", "url": "https://a.example/0"}) == (204, None)
    wanted = {
        "topics": [topic],
        "callback": f"https://localhost:{listener.port}/",
        "uuid": "page",
        "timeout": 100,
        "max": 10,
    }
    assert subscriber.request("POST", "/subscription", wanted) == (204, None)
    event = {"type": "create", "url": "https://a.example/1", "timestamp": 1_700_000_000_000, "data": {"price": 5}}
    assert publisher.request("POST", f"/topics/{topic}", event) == (204, None)
    until(lambda: listener.events, "the event")
    del event["timestamp"]
    assert listener.events == [{"topic": topic, "t": 1_700_000_000_000, **event}]
    assert listener.usernames == {"page"}
    (mine,) = [each for each in subscriber.request("GET", "/topics")[1] if each["name"] == topic]
    assert mine == {"name": topic, "publisher": "page-pub", "events": 2}
    assert subscriber.request("DELETE", f"/subscriber/topics/{topic}") == (204, None)
    assert publisher.request("DELETE", f"/topic/{topic}") == (204, None)
    assert subscriber.request("DELETE", "/subscriber") == (204, None)
    for token in tokens:
        assert root.request("DELETE", f"/api_tokens/{token}") == (204, None)
    listener.end()
