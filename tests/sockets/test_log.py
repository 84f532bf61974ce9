"""The lines of a socket's commands in the log of requests, and their metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.instances import Instance, until
from tests.sockets.client import Socket

pytestmark = pytest.mark.deep


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HANDSHAKE = {
    "X-Request-Id": "one",
    "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    "Authorization": "Bearer a-secret",
}


def text(instance: Instance) -> str:
    return (instance.data / "logs" / "web.log").read_text()


def lines(instance: Instance) -> list[dict[str, Any]]:
    """The JSON lines of commands."""
    found = [json.loads(line) for line in text(instance).splitlines()]
    return [each for each in found if each.get("method") == "WS"]


def test_each_command_has_a_line_of_json(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_LOG="json", TOPICS_API_KEYS="a-secret:read+write", WEB_WORKERS="1")
    with Socket(instance.port, additional_headers=HANDSHAKE) as socket:
        ack = socket.publish("t", 1)
        socket.ask("subscribe", topic="t")
        socket.ask("claim", topic="t", node="n")
        socket.ask("ping")
        socket.connection.send("nonsense")
        socket.next("error")
        socket.publish("t", 2, config={"cap_records": 1})
    found = until(lambda: each if len(each := lines(instance)) == 6 else None, "a line for each command")
    assert [(line["route"], line["status"], line.get("code"), line.get("command_id")) for line in found] == [
        ("/v0/ws publish", 201, None, "1"),
        ("/v0/ws subscribe", 200, None, "2"),
        ("/v0/ws claim", 409, "not_a_queue", "3"),
        ("/v0/ws ping", 200, None, "4"),
        ("/v0/ws", 400, "invalid_request", None),
        ("/v0/ws publish", 403, "forbidden", "5"),
    ]
    for line in found:
        assert (line["level"], line["request_id"], line["trace_id"]) == ("INFO", "one", TRACE)
        assert line["key"].startswith("env:")
        assert line["ms"] > 0
    assert found[0]["bytes"] > len(json.dumps(ack["performance"]))
    assert "a-secret" not in text(instance)


def test_a_slow_command_tells_the_parts_of_its_time(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_SLOW_MS="200", WEB_WORKERS="1")
    with Socket(instance.port) as socket, ThreadPoolExecutor() as pool:
        socket.publish("t", 1)
        with instance.connect() as database, database.transaction():
            database.execute("SELECT FROM topics_topichead FOR UPDATE")
            held = pool.submit(socket.publish, "t", 2)
            database.execute("SELECT pg_sleep(0.5)")
        assert held.result()["op"] == "ack"
    [line] = until(lambda: re.findall(r"WARNING topics\.requests method=WS .*", text(instance)), "the slow publish")
    assert "route=/v0/ws publish" in line
    assert "command_id=2" in line
    assert "wal_append_ms" in line
    assert "line_ms" in line


def test_commands_are_among_the_metrics(instances: Callable[..., Instance]) -> None:
    instance = instances(WEB_WORKERS="1")
    with Socket(instance.port) as socket:
        socket.publish("t", 1)
        socket.connection.send("nonsense")
        socket.next("error")
    metrics = until(lambda: found if "/v0/ws publish" in (found := instance.get("/v0/metrics")[1]) else None, "metrics")
    assert 'route="/v0/ws publish"' in metrics
    assert 'route="/v0/ws"' in metrics
