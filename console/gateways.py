"""Reads /gateway/graph of the gateways in TOPICS_GATEWAYS while an operator looks at them.

Each gateway has its own thread. A silent gateway therefore delays no page and no other gateway. Pages show the last answers of
the threads. A thread without a look ends, and what it saw is forgotten, because the next look can come hours later.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from django.conf import settings

from base.clock import now_ms
from base.units import printable

PATH = "/gateway/graph"
PAUSE_SECONDS = 2.0  # seconds between two requests
ANSWER_SECONDS = 3.0  # seconds to connect, and for each part of the answer
LOOKED_AT_SECONDS = 30.0  # after so many seconds without a look, the thread ends
FIRST_SECONDS = 1.0  # seconds that the first view of a page waits for answers
ALL_SECONDS = 2 * ANSWER_SECONDS  # seconds after which a gateway has answered, or failed
MOST_BYTES = 4 * 2**20
MOST_WHY = 200  # characters of a failure

Way = tuple[str, ...]  # names of a virtual cluster and of the routes behind it
Rates = dict[Way, tuple[float, float]]  # requests a second, and requests with a 5xx answer a second


class GatewayNode(msgspec.Struct):
    id: int
    state: str
    breaker: str


class GatewayCluster(msgspec.Struct):
    name: str
    state: str
    nodes: list[GatewayNode]


class GatewayTarget(msgspec.Struct):
    """A cluster, or a router with its routes."""

    cluster: str = ""
    router: str = ""
    type: str = ""
    routes: list[Route] = []


class Counted(msgspec.Struct):
    name: str
    requests: int
    errors: int
    target: GatewayTarget
    filters: list[str] = []


class Route(Counted):
    pass


class VirtualCluster(Counted):
    in_flight: int = 0


class GatewayStatus(msgspec.Struct):
    """The answer of a gateway (gateway/status.py). `configurations`: of all its processes. They differ only during a reload."""

    status: str
    configuration: str
    configurations: list[str]
    processes: int
    virtual_clusters: list[VirtualCluster]
    clusters: list[GatewayCluster]
    degraded: list[str] = []

    def counts(self) -> Iterator[tuple[Way, Counted]]:
        for each in self.virtual_clusters:
            yield (each.name,), each
            yield from below((each.name,), each.target)


def below(way: Way, target: GatewayTarget) -> Iterator[tuple[Way, Counted]]:
    for route in target.routes:
        yield (*way, route.name), route
        yield from below((*way, route.name), route.target)


class Seen(NamedTuple):
    """The known state of a gateway. `failure`: the reason for no answer since `failing_ts`. `answer`: the last answer, however
    old, since somebody looks."""

    name: str
    answer: GatewayStatus | None
    answered_ts: int
    failure: str
    failing_ts: int
    rates: Rates

    @property
    def state(self) -> str:
        if self.failure:
            return "silent"
        return self.answer.status if self.answer else "asked"


class WatchedGateway:
    """One gateway. Its thread writes the fields and pages read them. `lock` guards all fields."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.is_tls = parts.scheme == "https"
        self.host, self.port = parts.hostname or "", parts.port or (443 if self.is_tls else 80)
        self.name = parts.netloc
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.looked_at = 0.0
        self.first = threading.Event()  # set after the first answer or failure
        self.answered = 0.0  # monotonic time of the last answer
        self.forget()

    def forget(self) -> None:
        self.first.clear()
        self.answer: GatewayStatus | None = None
        self.answered_ts = self.failing_ts = 0
        self.failure = ""
        self.rates: Rates = {}

    def look(self) -> None:
        """Keeps the gateway's thread running for LOOKED_AT_SECONDS. Raises RuntimeError if none is free, and the next look tries
        again."""
        with self.lock:
            self.looked_at = time.monotonic()
            if self.thread is None:
                thread = threading.Thread(target=self.run, name=f"gateway {self.name}", daemon=True)
                thread.start()
                self.thread = thread

    def run(self) -> None:
        while True:
            try:
                answer = self.ask()
            except (OSError, msgspec.MsgspecError, RecursionError, ValueError) as error:
                self.failed(str(error) or type(error).__name__)
            except http.client.HTTPException as error:
                self.failed(f"the answer is not HTTP: {error}")
            else:
                self.take(answer, time.monotonic())
            self.first.set()
            time.sleep(PAUSE_SECONDS)
            with self.lock:
                if time.monotonic() > self.looked_at + LOOKED_AT_SECONDS:
                    self.thread = None
                    self.forget()
                    return

    def ask(self) -> GatewayStatus:
        """Requests the graph. Raises OSError, HTTPException, MsgspecError, RecursionError or ValueError."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS)
        if self.is_tls:
            tls = ssl.create_default_context()
            client = http.client.HTTPSConnection(self.host, self.port, timeout=ANSWER_SECONDS, context=tls)
        try:
            client.request("GET", PATH, headers={"Accept": "application/json", "Connection": "close"})
            response = client.getresponse()
            body = response.read(MOST_BYTES + 1)
        finally:
            client.close()
        if response.status != 200:
            raise ValueError(f"GET {PATH} was answered with {response.status}")
        if len(body) > MOST_BYTES:
            raise ValueError(f"the answer to GET {PATH} has more than {MOST_BYTES} bytes")
        return msgspec.json.decode(body, type=GatewayStatus)

    def failed(self, why: str) -> None:
        """Notes a failure. `why` can have what the address sent, and PostgreSQL stores no NUL."""
        with self.lock:
            if not self.failure:
                self.failing_ts = now_ms()
            self.failure, self.rates = printable(why, MOST_WHY), {}

    def take(self, answer: GatewayStatus, now: float) -> None:
        with self.lock:
            if self.answer is not None:
                self.rates = rates_between(self.answer, answer, now - self.answered)
            self.failure, self.answer, self.answered, self.answered_ts = "", answer, now, now_ms()

    def seen(self) -> Seen:
        with self.lock:
            return Seen(self.name, self.answer, self.answered_ts, self.failure, self.failing_ts, self.rates)


def rates_between(before: GatewayStatus, after: GatewayStatus, seconds: float) -> Rates:
    """Returns the rates between two answers. A new way has no rate yet."""
    old = dict(before.counts())
    return {
        way: (
            max(each.requests - old[way].requests, 0) / seconds,
            max(each.errors - old[way].errors, 0) / seconds,
        )
        for way, each in after.counts()
        if way in old and seconds > 0
    }


_watched: dict[str, WatchedGateway] = {}


def seen(wait: float = 0.0) -> list[Seen]:
    """Returns the known state of each gateway, in the order of the setting. Waits up to `wait` seconds in total for gateways
    that have not answered yet."""
    watched = [_watched.setdefault(url, WatchedGateway(url)) for url in settings.TOPICS_GATEWAYS]
    for each in watched:
        each.look()
    deadline = time.monotonic() + wait
    for each in watched:
        each.first.wait(max(deadline - time.monotonic(), 0.0))
    return [each.seen() for each in watched]
