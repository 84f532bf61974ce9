"""Whether everything works: an append of each durability and a read of it, a watch, and a forward, tried until they do."""

from __future__ import annotations

import http.client
from itertools import count

import pytest

from tests.crash.harness.client import Client, Unanswered
from tests.crash.harness.evidence import Acked, Evidence, now
from tests.crash.harness.gateway import AS_BYTES, AS_REQUESTS
from tests.crash.harness.topology import DURABILITIES, KEEP, NODES, Written
from tests.watch.wire import Api, Event, Refused, Stream

PATIENCE = 5.0  # seconds of one request
SHOWN_WITHIN = 2.0  # seconds of a watch for what was just appended, before another try


class Unhealed(Exception):
    """The deployment does not work again. The message names the broken part."""


class Healing:
    def __init__(self, port: int, gateway: int, evidence: Evidence) -> None:
        self.port, self.gateway, self.evidence = port, gateway, evidence
        self.numbers = count(1)

    @pytest.mark.guarantee("S5")
    def attempt(self) -> None:
        """Each call on a connection of its own: together they reach every web process. Raises Unhealed."""
        try:
            before = self.call("GET", "/v0/topics/probe.read")["head_seq"]
            api = Api(self.port, patience=PATIENCE)
            session = {"topics": {"probe.disk": {"tail": True}, "probe.watched": {"tail": True}}, "heartbeat_ms": 1000}
            with api.stream(self.call("POST", "/v0/watch", session)["stream_url"]) as stream:
                data = {durability: self.append_and_read(f"probe.{durability}") for durability in DURABILITIES}["disk"]
                self.expect(data, self.call("POST", "/v0/topics/probe.read/diff", {"from_seq": before}), "its copy")
                self.watch(stream, data)
            for host in (AS_BYTES, AS_REQUESTS):
                self.append_and_read("probe.fsync", self.gateway, host)
        except (Unanswered, Refused, OSError, http.client.HTTPException) as error:
            raise Unhealed(f"{error!r}") from error

    def call(self, method: str, path: str, body: object = None, port: int = 0, host: str = "127.0.0.1") -> dict:
        client = Client(port or self.port, PATIENCE, host)
        try:
            reply = client.call(method, path, body)
        finally:
            client.close()
        if reply.status not in (200, 201):
            raise Unhealed(f"{method} {path}: {reply.status} {reply.json}")
        return reply.json

    def append_and_read(self, topic: str, port: int = 0, host: str = "127.0.0.1") -> str:
        """Append a record, note its ack, and see that a reader gets it. Returns its data."""
        data = Written(topic, "probe", next(self.numbers), 0, 1, KEEP, NODES[0]).data()
        record = {"data": data, "tag": KEEP, "node": NODES[0]}
        first_seq = self.call("POST", f"/v0/topics/{topic}", {"records": [record]}, port, host)["first_seq"]
        self.evidence.acks.append(Acked(now(), "probe", topic, first_seq, (data,)))
        window = self.call("POST", f"/v0/topics/{topic}/diff", {"from_seq": first_seq - 1}, port, host)
        self.expect(data, window, "it")
        return data

    def expect(self, data: str, window: dict, what: str) -> None:
        if data not in [record["data"] for record in window["records"]]:
            raise Unhealed(f"{data} was acked, and a diff that was asked for after that does not show {what}")

    def watch(self, stream: Stream, data: str) -> None:
        """Until the stream has shown the record in its topic, and where a worker forwards it."""
        missing = {"probe.disk", "probe.watched"}

        def arrived(event: Event) -> bool:
            if event.name == "record" and data in [record["data"] for record in event.data["records"]]:
                missing.discard(event.data["topic"])
            return not missing

        try:
            stream.until(arrived, SHOWN_WITHIN)
        except AssertionError as error:
            raise Unhealed(f"a watch does not show {data} in {' and '.join(sorted(missing))}: {error}") from error
