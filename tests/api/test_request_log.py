"""Ids of requests, the log of requests, and what a web process says while PostgreSQL is away."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import HttpClient
from tests.api.test_faults import without
from tests.instances import Instance, until
from tests.watch.wire import Api

pytestmark = pytest.mark.deep


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def log(instance: Instance) -> str:
    return (instance.data / "logs" / "web.log").read_text()


def entries(instance: Instance, request_id: str) -> list[dict[str, Any]]:
    """The JSON lines about a request. Each line of the log is JSON."""
    found = [json.loads(line) for line in log(instance).splitlines()]
    return [each for each in found if each.get("request_id") == request_id]


@pytest.mark.parametrize("path", ["/v0/topics", "/v0/health", "/v0/none", "/", "/v0/schema"])
def test_each_answer_has_an_id(server: Instance, path: str) -> None:
    client = HttpClient(server.port)
    chosen = client.get(path, x_request_id="checkout-17")
    assert chosen.headers["x-request-id"] == "checkout-17"
    first, second = (client.get(path).headers["x-request-id"] for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", first)
    assert first != second
    for bad in ("a b", "x" * 129, "-", '"'):
        assert client.get(path, x_request_id=bad).headers["x-request-id"] != bad


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        (TRACEPARENT, TRACE),
        (f"cc-{TRACE}-00f067aa0ba902b7-00", TRACE),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (TRACEPARENT.upper(), None),
        ("nonsense", None),
    ],
)
def test_an_answer_continues_the_trace(server: Instance, given: str, trace: str | None) -> None:
    answer = HttpClient(server.port).get("/v0/topics", traceparent=given)
    found = answer.headers.get("traceparent")
    if trace is None:
        assert found is None
    else:
        assert re.fullmatch(rf"00-{trace}-[0-9a-f]{{16}}-{given[-2:]}", found or "")
        assert found != given  # the span is the server's


def test_each_request_has_a_line_of_json(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_LOG="json", TOPICS_API_KEYS="a-secret:read+write+admin+delete")
    client, sent = (
        HttpClient(instance.port),
        {"x_request_id": "one", "traceparent": TRACEPARENT, "authorization": "Bearer a-secret"},
    )
    answer = client.post("/v0/topics/t?return_seqs=false", {"records": [{"data": 1}]}, **sent)
    [line] = until(lambda: entries(instance, "one"), "the line of the append")
    assert line["time"]
    assert line["ms"] > 0
    assert {name: line[name] for name in ("level", "method", "route", "status", "bytes", "trace_id")} == {
        "level": "INFO",
        "method": "POST",
        "route": "/v0/topics/<str:topic>",
        "status": 201,
        "bytes": len(answer.body),
        "trace_id": TRACE,
    }
    assert line["key"].startswith("env:")
    refused = client.get("/v0/topics?token=a-secret", x_request_id="two")
    assert refused.status == 401
    [line] = until(lambda: entries(instance, "two"), "the line of the refusal")
    assert (line["status"], line["route"], "key" in line) == (401, "/v0/topics", False)
    client.get("/admin/login/?next=secret", x_request_id="three")
    [line] = until(lambda: entries(instance, "three"), "the line of the page")
    assert (line["status"], line["route"]) == (200, "/admin/login/")
    assert "secret" not in log(instance)


def test_a_stream_has_a_line_at_its_end(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_LOG="text")
    client = HttpClient(instance.port)
    client.append("t", 1)
    with Api(instance.port).stream("/v0/topics/t/events", **{"X-Request-Id": "watch"}):
        assert "request_id=watch" not in log(instance)
    until(
        lambda: re.search(r"INFO topics\.requests method=GET route=/v0/topics/t/events .*=watch", log(instance)), "it"
    )


def test_a_slow_call_tells_the_parts_of_its_time(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_SLOW_MS="200", TOPICS_LOG="json")
    client = HttpClient(instance.port)
    client.append("t", 1)
    waited = client.post("/v0/topics/t/diff", {"from_seq": 1, "wait_ms": 600}, x_request_id="poll")
    assert waited.status == 200
    with ThreadPoolExecutor() as pool, instance.connect() as database, database.transaction():
        database.execute("SELECT FROM topics_topichead FOR UPDATE")
        held = pool.submit(client.append, "t", 2)
        until(lambda: waits_for_a_lock(instance), "the append to wait")
        database.execute("SELECT pg_sleep(0.3)")
    assert held.result().status == 200
    # On a busy machine, an earlier call can be slow, too.
    slow = until(lambda: [each for each in slow_lines(instance) if each["ms"] > 290], "the line of the slow append")[-1]
    assert slow["level"] == "WARNING"
    assert slow["slow"]["wal_append_ms"] > 0
    assert 0 <= slow["slow"]["body_ms"] < slow["ms"]
    [poll] = entries(instance, "poll")
    assert poll["ms"] > 600
    assert (poll["level"], "slow" in poll) == ("INFO", False)


def test_a_slow_answer_may_have_a_field_of_that_name_elsewhere(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_SLOW_MS="200", TOPICS_LOG="json")
    client = HttpClient(instance.port)
    client.append("t", {"performance": {"x": 1}})
    path, events = "/v0/topics/t/records", "application/cloudevents-batch+json"
    with ThreadPoolExecutor() as pool, instance.connect() as database, database.transaction():
        database.execute("LOCK TABLE topics_topichead")
        held = pool.submit(client.get, path, accept=events, x_request_id="events")
        until(lambda: waits_for_a_lock(instance, "topic_diff"), "the read to wait")
        database.execute("SELECT pg_sleep(0.3)")
    assert held.result().status == 200
    [line] = until(lambda: entries(instance, "events"), "the line of the slow read")
    assert line["slow"].keys() == {"body_ms"}


def slow_lines(instance: Instance) -> list[dict[str, Any]]:
    return [entry for line in log(instance).splitlines() if "slow" in (entry := json.loads(line))]


def waits_for_a_lock(instance: Instance, what: str = "") -> bool:
    """Whether a statement with this text waits."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, %s) > 0"
    with instance.connect() as database:
        row = database.execute(waiting, [what]).fetchone()
    return bool(row and row[0])


def test_a_process_without_postgresql_says_so_once(instances: Callable[..., Instance]) -> None:
    instance = instances()
    client = HttpClient(instance.port)
    client.append("t", 1)
    postmaster = int((instance.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    with without(instance, postmaster, signal.SIGQUIT):
        until(lambda: not instance.is_ready(), "PostgreSQL to be gone")
        for _ in range(3):
            assert client.append("t", 2).status == 503
    assert len(re.findall(r"WARNING wire\.answer Requests got 503: ", log(instance))) == 1
