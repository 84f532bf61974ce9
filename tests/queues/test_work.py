"""GET /v0/topics/:topic/work: a stream of jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pytest

from tests.instances import Instance, until
from tests.watch.test_trouble import web_workers
from tests.watch.wire import Api, Event, Refused, Stream, new_name

pytestmark = pytest.mark.deep


Work = Callable[..., tuple[Stream, Iterator[Event]]]


@pytest.fixture
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture
def queue(api: Api) -> str:
    name = new_name("q")
    api.done("PUT", f"/v0/topics/{name}", {"type": "queue", "lease_ms": 60_000})
    return name


@pytest.fixture
def work(api: Api) -> Iterator[Work]:
    """`work(queue, max=2)` opens a stream, which is closed with the test. Returns the stream and its events."""
    with ExitStack() as stack:

        def work(queue: str, node: str = "w", port: int = api.port, **options: int) -> tuple[Stream, Iterator[Event]]:
            query = "".join(f"&{name}={value}" for name, value in options.items())
            url = f"/v0/topics/{queue}/work?node={node}{query}"
            stream = stack.enter_context(Stream(port, url, {"Accept": "text/event-stream"}))
            return stream, stream.events()

        yield work


def jobs(api: Api, queue: str) -> tuple[int, int]:
    shown = api.done("GET", f"/v0/topics/{queue}")["queue"]
    return shown["ready"], shown["in_flight"]


def ack(api: Api, queue: str, *events: Event, node: str = "w") -> Any:
    body = {"node": node, "seqs": [each.data["$seq"] for each in events]}
    return api.done("POST", f"/v0/topics/{queue}/ack", body | {"lease_ids": [each.data["lease_id"] for each in events]})


def test_it_keeps_max_jobs_in_flight(api: Api, queue: str, work: Work) -> None:
    api.append(queue, *({"data": {"n": n}, "tag": "t", "meta": {"m": n}} for n in range(5)))
    stream, events = work(queue, max=2)
    assert stream.headers["cache-control"] == "no-store"
    first, second = islice(events, 2)
    assert (first.name, first.id) == ("job", "1")
    assert set(first.data) == {"topic", "$seq", "lease_id", "deadline", "$ts", "$tag", "deliveries", "meta", "data"}
    assert (first.data["topic"], first.data["data"], second.data["$seq"]) == (queue, {"n": 0}, 2)
    assert jobs(api, queue) == (3, 2)
    ack(api, queue, second)
    third = next(events)
    assert third.data["$seq"] == 3
    assert jobs(api, queue) == (2, 2)
    ack(api, queue, first, third)
    assert [each.data["$seq"] for each in islice(events, 2)] == [4, 5]


def test_it_sends_jobs_that_come_later_and_those_given_back(api: Api, queue: str, work: Work) -> None:
    _, events = work(queue, max=5)
    api.append(queue, {"data": 1})
    assert next(events).data["data"] == 1
    api.done("POST", f"/v0/topics/{queue}/nack", {"node": "w", "seqs": [1]})
    again = next(events)
    assert (again.data["$seq"], again.data["deliveries"]) == (1, 2)


def test_a_stream_gets_more_jobs_than_fit_in_one_claim(api: Api, queue: str, work: Work) -> None:
    api.append(queue, *({"data": "x" * 400_000} for _ in range(5)))
    _, events = work(queue, max=5)
    assert [each.data["$seq"] for each in islice(events, 5)] == [1, 2, 3, 4, 5]


def test_a_job_whose_lease_ended_comes_again(api: Api, queue: str, work: Work) -> None:
    api.append(queue, {"data": 1})
    _, events = work(queue, lease_ms=100)
    assert [each.data["deliveries"] for each in islice(events, 3)] == [1, 2, 3]


def test_a_dropped_connection_releases_its_jobs_alone(api: Api, queue: str, work: Work) -> None:
    api.append(queue, *({"data": n} for n in range(4)))
    api.done("POST", f"/v0/topics/{queue}/claim", {"node": "w", "max": 1})
    stream, events = work(queue, max=2)
    assert [each.data["$seq"] for each in islice(events, 2)] == [2, 3]
    assert jobs(api, queue) == (1, 3)
    stream.close()
    until(lambda: jobs(api, queue) == (3, 1), "the jobs of the stream to be ready")
    _, others = work(queue, node="other", max=3)
    assert sorted(each.data["$seq"] for each in islice(others, 3)) == [2, 3, 4]


def test_two_workers_share_the_jobs(api: Api, queue: str, work: Work) -> None:
    streams = {node: work(queue, node=node, max=3)[1] for node in ("a", "b")}
    api.append(queue, *({"data": n} for n in range(6)))
    got = {node: [each.data["$seq"] for each in islice(events, 3)] for node, events in streams.items()}
    assert sorted(got["a"] + got["b"]) == [1, 2, 3, 4, 5, 6]


def test_a_stream_of_a_higher_priority_gets_jobs_first(instances: Any, work: Work) -> None:
    """In one web process."""
    instance, queue = instances(WEB_WORKERS="1"), "q"
    api = Api(instance.port)
    api.done("PUT", f"/v0/topics/{queue}", {"type": "queue", "lease_ms": 60_000})
    api.append(queue, *({"data": n} for n in range(42)))
    _, low = work(queue, port=instance.port)
    _, high = work(queue, port=instance.port, priority=5)
    higher_first = 0
    held = [next(low), next(high)]
    for _ in range(20):
        ack(api, queue, *held)  # both streams have room at once
        held = [next(low), next(high)]
        higher_first += held[1].data["$seq"] < held[0].data["$seq"]
    assert higher_first >= 15  # a stream that looks by itself just then can be first


def test_a_full_stream_of_a_higher_priority_keeps_no_other_waiting(api: Api, queue: str, work: Work) -> None:
    _, high = work(queue, priority=5, max=2)
    _, low = work(queue, max=2)
    api.append(queue, *({"data": n} for n in range(4)))
    assert len([*islice(high, 2), *islice(low, 2)]) == 4


def test_a_shutdown_gives_the_jobs_back(instances: Any, work: Work) -> None:
    instance = instances()
    api = Api(instance.port)
    api.done("PUT", "/v0/topics/q", {"type": "queue"})
    api.append("q", {"data": 1})
    _, events = work("q", port=instance.port)
    assert next(events).name == "job"
    with instance.connect() as database:
        (web,) = web_workers(instance)
        os.kill(web, signal.SIGTERM)
        (end,) = list(events)
        assert (end.name, end.data["code"]) == ("error", "shutting_down")
        held = "SELECT count(*) FROM queues_lease WHERE node IS NOT NULL"
        until(lambda: database.execute(held).fetchone() == (0,), "the lease to be given back")


def test_it_ends_when_the_topic_is_deleted(api: Api, queue: str, work: Work) -> None:
    _, events = work(queue)
    api.done("DELETE", f"/v0/topics/{queue}")
    (end,) = list(events)
    assert (end.name, end.data["code"]) == ("error", 404)


def test_it_takes_no_job_of_a_queue_that_replaced_its_own(api: Api, queue: str, work: Work) -> None:
    api.append(queue, {"data": 0})
    _, events = work(queue)
    assert next(events).data["data"] == 0
    api.done("DELETE", f"/v0/topics/{queue}")
    api.done("PUT", f"/v0/topics/{queue}", {"type": "queue"})
    api.append(queue, *({"data": n} for n in range(5)))
    (end,) = list(events)
    assert (end.name, end.data["code"]) == ("error", 404)
    assert jobs(api, queue) == (5, 0)


def test_what_makes_no_sense_is_refused(api: Api, queue: str) -> None:
    api.append(f"{queue}-log", {"data": 1})
    path = f"/v0/topics/{queue}/work"
    for url, accept, status, code in (
        (path, "text/event-stream", 400, "invalid_request"),
        (f"{path}?node=w&max=0", "text/event-stream", 400, "invalid_request"),
        (f"{path}?node=w&priority=1001", "text/event-stream", 400, "invalid_request"),
        (f"{path}?node=w&lease_ms=99", "text/event-stream", 400, "invalid_request"),
        (f"{path}?node=w&nonsense=1", "text/event-stream", 400, "invalid_request"),
        (f"{path}?node=w", "application/json", 406, "not_acceptable"),
        (f"/v0/topics/{queue}-log/work?node=w", "text/event-stream", 409, "not_a_queue"),
        (f"/v0/topics/{queue}-absent/work?node=w", "text/event-stream", 404, "topic_not_found"),
    ):
        with pytest.raises(Refused) as refused:
            Stream(api.port, url, {"Accept": accept})
        answer = refused.value.args[0]
        assert (answer.status, answer.body["error"]["code"]) == (status, code), url
        json.dumps(answer.body)
