"""The error table: each code has its status, and what nothing else provokes is provoked here."""

import contextlib
import http.client
import json
import os
import signal
import threading
from typing import Any

import pytest
from django.db import connection

from base import errors
from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import until

TABLE = {  # docs/errors.md
    400: {"invalid_request", "batch_too_large", "record_too_large"},
    401: {"unauthorized"},
    403: {"forbidden"},
    404: {"topic_not_found", "router_not_found", "not_found"},
    405: {"method_not_allowed"},
    406: {"not_acceptable"},
    413: {"payload_too_large"},
    415: {"unsupported_media_type"},
    409: {
        "router_cycle",
        "dead_letter_cycle",
        "router_outside_prefixes",
        "topic_exists_incompatible",
        "topic_not_empty",
        "not_a_queue",
        "head_mismatch",
        "cursor_moved",
        "share_moved",
        "session_ended",
        "topic_sealed",
        "topic_not_sealed",
    },
    422: {"topic_full", "idempotency_mismatch"},
    426: {"upgrade_required"},
    429: {"throttled"},
    500: {"internal"},
    503: {"not_ready", "shutting_down", "storage_full"},
}


# Other APIs on the port may have errors of their own.
OURS = [each for each in errors.TopicsError.__subclasses__() if each.__module__ == errors.__name__]


def test_every_code_has_its_class_and_status() -> None:
    found: dict[int, set[str]] = {}
    for each in (errors.TopicsError, *OURS):
        found.setdefault(each.status, set()).add(each.code)
    assert found == TABLE


@pytest.mark.parametrize("each", OURS, ids=lambda each: each.code)
def test_a_client_that_may_try_again_is_told_when(each: type[errors.TopicsError]) -> None:
    assert (each.retry_after is not None) == (each.status in (429, 503))


def test_a_router_that_is_not_there(api: ApiClient, name: str) -> None:
    refused = api.get(f"/v0/routers/{name}")
    assert (refused.status, refused.code) == (404, "router_not_found")


def test_a_cycle_of_routers(api: ApiClient, name: str) -> None:
    api.put(f"/v0/routers/{name}-1", {"source": f"{name}-a", "dest": f"{name}-b"})
    refused = api.put(f"/v0/routers/{name}-2", {"source": f"{name}-b", "dest": f"{name}-a"})
    assert (refused.status, refused.code) == (409, "router_cycle")
    assert refused.detail["cycle"][0] == refused.detail["cycle"][-1]


def test_a_fault_of_ours_tells_nothing_of_the_inside(
    views: ApiClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE topics_topic ADD CONSTRAINT nobody_knows CHECK (ttl_ms = 0)")
    refused = views.put(f"/v0/topics/{name}", {"ttl_ms": 1})
    assert (refused.status, refused.code) == (500, "internal")
    assert "nobody_knows" not in refused.body.decode()
    assert "nobody_knows" in caplog.text


def test_a_server_on_its_way_down_sends_people_elsewhere(instances) -> None:
    server = instances(WEB_WORKERS="1", TOPICS_MAX_IN_FLIGHT_PER_KEY="1")
    HttpClient(server.port).put("/v0/topics/t")
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    last: list[Any] = []

    def status() -> int:
        try:
            kept.request("GET", "/v0/topics")
            reply = kept.getresponse()
        except ConnectionError:  # a server that ends closes a connection between two requests
            kept.close()
            return 0
        last[:] = [reply.headers["retry-after"], json.loads(reply.read())]
        return reply.status

    def linger() -> None:
        """A request under way keeps the process for a few seconds. Again where the look below was in the way."""
        with contextlib.suppress(OSError, http.client.HTTPException):  # cut off in the end
            while HttpClient(server.port).append("t", 1, idempotency_key="k").status == 429:
                pass

    with server.connect() as database, database.transaction():
        database.execute("SELECT FROM topics_topichead FOR UPDATE")  # the append has to wait for it
        lingering = threading.Thread(target=linger)
        lingering.start()
        until(lambda: status() == 429, "a request to be under way")
        for pid in server.pids("topics_project.web"):
            os.kill(
                pid, signal.SIGINT
            )  # like Ctrl-C in a terminal. The first of these processes hands it on to the other one
        server.process.send_signal(signal.SIGTERM)
        until(lambda: status() == 503, "the server to know that it ends", tick=0)
        assert (last[0], last[1]["error"]["code"]) == ("1", "shutting_down")
        assert [status() for _ in range(20)] == [503] * 20  # as long as the append is under way
    kept.close()
    server.process.wait(DEADLINE)
    lingering.join(DEADLINE)
