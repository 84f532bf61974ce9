"""Metrics and faults: on /v0/metrics, on standard output, to Datadog, and to the services for exceptions."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import json
import logging
import os
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from base.clock import now_ms
from base.refusal import Refusal
from push.reports import counters, exceptions, reporters
from store.loop import here
from store.script import Statement
from tests.console.test_grafana import expressions
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.push.bus import Client, until_acknowledged, url
from tests.push.receiver import Receiver, Served

NAMES = [
    "subscriber.queue.batches",
    "subscriber.queue.events",
    "jobs.count",
    "redis.bytes_used",
    "redis.max_mem",
    "redis.low_mark",
    "redis.high_mark",
    "redis.used_cpu_user",
    "redis.used_cpu_sys",
    "events.published",
    "events.autodropped",
    "events.removed",
    "events.added",
    "events.unreadable",
    "events.passed_over",
    "delivery.events",
    "delivery.batches",
    "delivery.time",
    "delivery.time2",
    "latency.batches.count",
    "latency.batches.first_attempt",
    "latency.batches.last_attempt",
    "process",
]


@pytest.fixture
def delivered(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> str:
    """A subscriber that got three events, of which the first failed at first. Its name."""
    receiver.answer = lambda handler, batch: 500 if batch.attempt == 1 and not receiver.batches[1:] else 200
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    for n in range(3):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(3)])
    until(subscriber.drained, "the queue to be empty")
    return subscriber.name


def test_metrics_for_prometheus(bus: Instance, delivered: str, topic: str) -> None:
    def values() -> dict[str, float]:
        lines = bus.get("/v0/metrics")[1].splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("push_"))
        return {name: float(value) for name, value in found.items()}

    until(lambda: any("latency_batches_last" in name and delivered in name for name in values()), "what was counted")
    found = values()
    mine = {}
    for name, value in found.items():
        if delivered in name:
            mine[name.split("{")[0] + ("-failure" if "failure" in name else "")] = value
    assert next(value for name, value in found.items() if f'topic="{topic}"' in name) == 4
    assert mine["push_events_added_total"] == mine["push_events_removed_total"] == 3
    assert mine["push_delivery_events_total"] == 3
    assert mine["push_delivery_batches_total-failure"] == 1
    assert mine["push_subscriber_queue_events"] == mine["push_events_autodropped_total"] == 0
    kinds = {name.split("{")[0].removesuffix("_total") for name in found}
    assert kinds == {f"push_{name.replace('.', '_')}" for name in NAMES}


def test_alerts_and_the_dashboard_name_metrics_of_the_bus_that_are_there(bus: Instance, delivered: str) -> None:
    """tests/console/test_grafana.py checks the other metrics."""
    families = text_string_to_metric_families(bus.get("/v0/metrics")[1])
    served = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    shown = [expression for expression in expressions() if "push_" in expression]
    assert len(shown) > 8
    for expression in shown:
        assert set(re.findall(r"\bpush_\w+", expression)) <= set(served)
        for name, labels in re.findall(r"(push_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*=", labels)) <= served[name]


def test_metrics_on_standard_output(bus: Instance, delivered: str) -> None:
    log = bus.data / "logs" / "push.log"
    until(lambda: f"counter delivery.events:3 (status:success,subscriber:{delivered}" in log.read_text(), "the report")
    assert "gauge redis.max_mem:1e+08 ()" in log.read_text()


@pytest.fixture
def datadog_agent(settings, db: None) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(DEADLINE)
        settings.METRIC_COLLECTION_SERVICE = "datadog"
        settings.DATADOG_STATSD = f"127.0.0.1:{agent.getsockname()[1]}"
        settings.ROUTEMASTER_APP_NAME = "shop"
        yield agent


@pytest.mark.django_db(transaction=True)
def test_counts_are_written_also_after_some_that_could_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "FLUSH_SECONDS", 0.01)

    async def main() -> None:
        store = here()
        writing = asyncio.create_task(counters.flush_forever(store))
        async with asyncio.timeout(DEADLINE):
            for name in ("no text: \udc80", "later"):
                counters.add(name, "")
                while counters.process.sums:
                    await asyncio.sleep(0.01)
            while not await store.execute(Statement("SELECT 1 FROM push_counter WHERE name = 'later'")):
                await asyncio.sleep(0.01)
        writing.cancel()
        await store.close()

    asyncio.run(main())


def test_metrics_to_a_datadog_agent(datadog_agent: socket.socket) -> None:
    reporters.check("datadog")
    reporters.report(now_ms())
    wanted = {"redis.max_mem:100000000|g|#app:shop", "jobs.count:0|g|#app:shop,queue:push,status:instant"}
    came: set[str] = set()
    while not wanted <= came:
        came |= set(datadog_agent.recv(65536).decode().split("\n"))


class Collector(Served):
    """A server over HTTP, or TLS, that keeps what is posted to it. `answer`: what it says to a post to a path."""

    def __init__(self, answer: Callable[[str], bytes] = lambda path: b"{}", ca: trustme.CA | None = None) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        kept = self.bodies

        class Keep(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                kept.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
                body = answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keep), ca)
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.end()


def test_metrics_to_datadogs_api(collector: Collector, settings, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.METRIC_COLLECTION_SERVICE = "datadog"
    settings.DATADOG_API_KEY, settings.DATADOG_APP_KEY = "a", "b"
    monkeypatch.setenv("DATADOG_HOST", f"http://{collector.host}")
    reporters.check("datadog")
    reporters.report(now_ms())
    ((path, body),) = collector.bodies
    text = zlib.decompress(body) if body[:1] == b"x" else body
    series = {each["metric"]: each for each in json.loads(text)["series"]}
    assert path.startswith("/api/v1/series")
    assert series["redis.max_mem"]["points"][0][1] in (100_000_000, [100_000_000])
    assert series["redis.max_mem"]["type"] == "gauge"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"METRIC_COLLECTION_SERVICE": "statsd"}, "expected print, datadog, none"),
        ({"METRIC_COLLECTION_SERVICE": "datadog"}, "needs DATADOG_API_KEY and DATADOG_APP_KEY"),
        ({"METRIC_COLLECTION_SERVICE": "datadog", "DATADOG_STATSD": "here"}, "Invalid DATADOG_STATSD"),
    ],
)
def test_metrics_that_cannot_go_anywhere_are_refused(settings, change: dict[str, str], words: str) -> None:
    for name, value in change.items():
        setattr(settings, name, value)
    with pytest.raises(SystemExit, match=words):
        reporters.check(settings.METRIC_COLLECTION_SERVICE)


@pytest.mark.parametrize(
    ("service", "url", "words"),
    [
        ("bugsnag", "", "expected print, sentry, honeybadger, new_relic"),
        ("sentry", "", "needs EXCEPTION_SERVICE_URL"),
        ("honeybadger", "https://host-without-key", "needs EXCEPTION_SERVICE_URL"),
        ("new_relic", "", "needs NEW_RELIC_LICENSE_KEY"),
    ],
)
def test_exceptions_that_cannot_go_anywhere_are_refused(service: str, url: str, words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        exceptions.report_to(service, url)


@pytest.mark.parametrize("service", ["sentry", "honeybadger", "new_relic"])
def test_a_missing_library_is_one_line(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refusal, match="needs its library: pip install"):
        exceptions.report_to(service, "https://key@host/1")


@pytest.fixture
def faults() -> Iterator[Callable[[str], None]]:
    """`faults("…")` logs an exception, as a fault of ours is. Reporting ends with the test."""
    before = list(logging.getLogger().handlers)
    log = logging.getLogger("tests.push.faults")

    def fail(secret: str) -> None:
        try:
            raise ValueError("something of ours broke")
        except ValueError:
            log.exception("a request failed")

    yield fail
    logging.getLogger().handlers[:] = before


def test_faults_go_to_sentry(collector: Collector, faults: Callable[[str], None]) -> None:
    import sentry_sdk

    exceptions.report_to("sentry", f"http://key@{collector.host}/1")
    faults("a-token-in-a-variable")
    sentry_sdk.flush(10)
    sent = b"".join(unpacked(body) for _, body in collector.bodies)
    assert b"something of ours broke" in sent
    assert b"a-token-in-a-variable" not in sent
    sentry_sdk.init()  # to nobody


def test_faults_go_to_honeybadger(collector: Collector, faults: Callable[[str], None]) -> None:
    exceptions.report_to("honeybadger", f"http://key@{collector.host}")
    faults("a-token-in-a-variable")
    until(lambda: collector.bodies, "the notice")
    sent = b"".join(body for _, body in collector.bodies)
    assert b"something of ours broke" in sent
    assert b"a-token-in-a-variable" not in sent


# What a process of ours does: it reports from a fork of the one that was told to.
FORK = """
import logging, os
from newrelic import agent
from push.reports import exceptions

def fail(secret):
    try:
        raise ValueError("something of ours broke")
    except ValueError:
        logging.getLogger("tests").exception("a request failed")

exceptions.report_to("new_relic", "")
child = os.fork()
if not child:
    logging.getLogger("tests").warning("what is no fault")
    fail("a-token-in-a-variable")
    logging.getLogger().handlers[-1].report.waiting.join()
    agent.shutdown_agent(10)  # as at its end: else it tells once a minute
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def says(path: str) -> bytes:
    """What New Relic answers: the library has it all, for who tries it out."""
    from newrelic.common.agent_http import DeveloperModeClient

    (method,) = parse_qs(urlsplit(path).query)["method"]
    known = {**DeveloperModeClient.RESPONSES, "preconnect": {"redirect_host": "localhost"}}
    return json.dumps({"return_value": known[method]}).encode()


def test_faults_go_to_new_relic(ca: trustme.CA, ca_file: Path) -> None:
    collector = Collector(says, ca)
    try:
        account = {
            "NEW_RELIC_LICENSE_KEY": "k" * 40,
            "NEW_RELIC_HOST": "localhost",
            "NEW_RELIC_PORT": str(collector.port),
        }
        environment = {**os.environ, **account, "NEW_RELIC_CA_BUNDLE_PATH": str(ca_file), "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", FORK], env=environment, check=True, timeout=DEADLINE)
    finally:
        collector.end()
    sent = {parse_qs(urlsplit(path).query)["method"][0]: unpacked(body) for path, body in collector.bodies}
    assert b"something of ours broke" in sent["error_data"]
    assert not any(b"a-token-in-a-variable" in body or b"what is no fault" in body for body in sent.values())
    assert "log_event_data" not in sent
    assert "analytic_event_data" not in sent


def unpacked(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
