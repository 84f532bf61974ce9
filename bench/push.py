"""The push bus: from publishing to a callback server in a separate process."""

from __future__ import annotations

import base64
import http.client
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.load import run as wrk
from bench.report import Row
from tests.instances import Instance, free_port, until

ROOT = "bench-root-key-of-the-bus"
# Callbacks use plain HTTP to this machine. A hanging callback times out as late as in Routemaster.
SETTINGS = {
    "ROUTEMASTER_ROOT_KEY": ROOT,
    "PUSH_CALLBACK_LOOPBACK_HTTP": "1",
    "ROUTEMASTER_REDIS_MAX_MEM": "0",
    "ROUTEMASTER_REDIS_MIN_FREE": "0",
    "METRIC_COLLECTION_SERVICE": "print",
}
EVENT = {"type": "update", "url": "https://shop.example/orders/12345", "data": {"total": 19.9, "note": "x" * 40}}


class Client:
    """A client with a token, on one kept connection."""

    def __init__(self, instance: Instance, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)
        self.authorization = "Basic " + base64.b64encode(f"{token}:x".encode()).decode()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": self.authorization, "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body)
        try:
            self.connection.request(method, path, sent, headers)
            answer = self.connection.getresponse()
        except ConnectionError:  # the server closed the connection because it was idle for too long
            self.connection.close()
            self.connection.request(method, path, sent, headers)
            answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text!r}")
        return json.loads(text) if text else None

    def publish(self, topic: str, **event: Any) -> None:
        self.call("POST", f"/topics/{topic}", {**EVENT, **event})


class Receiver:
    """The callback server (bench/callbacks.py), in a separate process."""

    def __init__(self) -> None:
        self.port = free_port()
        script = str(Path(__file__).with_name("callbacks.py"))
        self.process = subprocess.Popen([sys.executable, script, str(self.port)])
        until(self.up, "the callback server")

    def up(self) -> bool:
        try:
            self.counts()
        except OSError:
            return False
        return True

    def ask(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def counts(self) -> dict[str, int]:
        """Returns the number of received events, by path."""
        return dict(self.ask("/counts"))

    def delays(self) -> dict[str, list[float]]:
        """Returns the delays of all events since the last call, by topic: from `data.at` to the arrival, in ms."""
        return {topic: sorted(found) for topic, found in self.ask("/delays").items()}

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


def run(instance: Instance) -> Iterator[Row]:
    root, receiver = Client(instance, ROOT), Receiver()
    try:
        yield latency(instance, root, receiver)
        yield from publish_rates(instance, root, receiver)
        yield drain(instance, root, receiver)
        yield hanging(instance, root, receiver)
    finally:
        receiver.process.kill()


def client(instance: Instance, root: Client) -> Client:
    made = root.call("POST", "/api_tokens", {"name": f"bench-{uuid.uuid4().hex[:8]}"})
    return Client(instance, made["token"])


def paced(publisher: Client, topics: list[str], count: int, rate: float) -> None:
    """Publish `count` events to these topics in turn. `rate`: events a second."""
    began = time.perf_counter()
    for n in range(count):
        time.sleep(max(began + n / rate - time.perf_counter(), 0))
        publisher.publish(topics[n % len(topics)], data={"at": time.time()})


def shown(delays: list[float]) -> tuple[float, float, str]:
    p50, p99 = statistics.median(delays), delays[len(delays) * 99 // 100]
    return p50, p99, f"median {p50:.1f} ms, p99 {p99:.1f} ms"


def latency(instance: Instance, root: Client, receiver: Receiver) -> Row:
    """Returns a row for 100 events a second to one subscriber with timeout 0."""
    publisher, subscriber = client(instance, root), client(instance, root)
    publisher.publish("latency")
    subscriber.call("POST", "/subscription", {"topics": ["latency"], "callback": receiver.url("latency"), "timeout": 0})
    paced(publisher, ["latency"], 100, 100)  # opens the connections
    until(lambda: receiver.counts().get("latency") == 100, "the first events")
    receiver.delays()
    paced(publisher, ["latency"], 1000, 100)
    until(lambda: receiver.counts().get("latency") == 1100, "all events")
    p50, p99, measured = shown(receiver.delays()["latency"])
    work = "publish to callback received, timeout 0, 100 events/s"
    return Row(work, "median < 25 ms, p99 < 80 ms", measured, ok=p50 < 25 and p99 < 80)


def publish_rates(instance: Instance, root: Client, receiver: Receiver) -> Iterator[Row]:
    """Yields a row for publishing on 32 connections, with one subscriber and with a hundred, in turn."""
    publisher = client(instance, root)
    topics = {"few": 1, "many": 100}
    for topic, count in topics.items():
        publisher.publish(topic)
        for n in range(count):
            body = {"topics": [topic], "callback": receiver.url(f"{topic}{n}"), "timeout": 500, "max": 1000}
            client(instance, root).call("POST", "/subscription", body)
    rates: dict[str, list[float]] = {topic: [] for topic in topics}
    script = (
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f'wrk.headers["Authorization"] = "{publisher.authorization}"\nwrk.body = [==[{json.dumps(EVENT)}]==]\n'
    )
    for _ in range(3):
        for topic, each in rates.items():
            each.append(wrk(f"{instance.url}/topics/{topic}", script, 32, 3).rate)
            until(lambda: drained(root), "what was published to be delivered", 300)
    few, many = (statistics.median(each) for each in rates.values())
    measured = f"{many:,.0f}/s with 100, {few:,.0f}/s with 1"
    work = "publish to one topic, 32 connections, 1 and 100 subscribers"
    yield Row(work, "within 10%, ≥ 6,000/s", measured, ratio=f"{many / few:.2f}", ok=many >= 0.9 * few and many >= 6000)


def drained(root: Client) -> bool:
    return all(each["events"]["queued"] == 0 for each in root.call("GET", "/subscriptions"))


def drain(instance: Instance, root: Client, receiver: Receiver) -> Row:
    """Returns a row for the delivery of 100,000 queued events to a new subscriber."""
    publisher, subscriber = client(instance, root), client(instance, root)
    publisher.publish("drain")
    script = (
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f'wrk.headers["Authorization"] = "{publisher.authorization}"\nwrk.body = [==[{json.dumps(EVENT)}]==]\n'
    )
    while next(each["events"] for each in root.call("GET", "/topics") if each["name"] == "drain") < 100_000:
        wrk(f"{instance.url}/topics/drain", script, 32, 3)
    count = next(each["events"] for each in root.call("GET", "/topics") if each["name"] == "drain")
    body = {"topics": ["drain"], "callback": receiver.url("drain"), "max": 100, "from": "earliest"}
    began = time.perf_counter()
    subscriber.call("POST", "/subscription", body)
    until(lambda: receiver.counts().get("drain", 0) >= count, "all events", 120)
    rate = count / (time.perf_counter() - began)
    return Row(
        f"draining {count:,} queued events, max 100", "≥ 20,000 events/s", f"{rate:,.0f} events/s", ok=rate >= 20_000
    )


def hanging(instance: Instance, root: Client, receiver: Receiver) -> Row:
    """Returns a row for the delays of 180 subscribers, with 20 more that hang and without them."""
    publisher = client(instance, root)
    topics = {"none": 0, "some": 20}
    for topic, hang in topics.items():
        publisher.publish(topic)
        for n in range(180 + hang):
            path = f"hang{n}" if n < hang else f"{topic}{n}"
            body = {"topics": [topic], "callback": receiver.url(path), "timeout": 0}
            client(instance, root).call("POST", "/subscription", body)
    paced(publisher, list(topics), 8, 1)  # from now on the 20 callbacks hang
    time.sleep(3)
    receiver.delays()
    paced(publisher, list(topics), 40, 1)  # in turn, so that both topics have the same conditions
    time.sleep(3)
    measured = receiver.delays()
    (p50, p99, with_them), (alone50, alone99, without) = shown(measured["some"]), shown(measured["none"])
    ok = p50 <= 1.25 * alone50 and p99 <= 1.25 * alone99
    return Row("200 subscribers of which 20 hang: the other 180", "as quick as without them", with_them, without, ok=ok)
