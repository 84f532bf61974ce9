"""POST /v0/topics/:topic/claim, ack, nack and extend."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


OF_QUEUE = "topic_id = (SELECT id FROM topics_topic WHERE name = %s)"
FORGET_WAITS = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%queue_forget%'"


@pytest.fixture
def queue(api: ApiClient, request: pytest.FixtureRequest) -> str:
    """The name of a queue of its own, whose lease is a minute."""
    name = f"jobs-{abs(hash(request.node.nodeid)):x}"
    assert api.put(f"/v0/topics/{name}", {"type": "queue", "lease_ms": 60_000}).status == 201
    return name


def call(api: ApiClient, queue: str, what: str, **body: Any) -> Any:
    reply = api.post(f"/v0/topics/{queue}/{what}", body)
    assert reply.status == 200, reply
    return {name: value for name, value in reply.json.items() if name != "performance"}


def claim(api: ApiClient, queue: str, node: str = "w", max: int = 10, **more: Any) -> list[Any]:
    jobs: list[Any] = call(api, queue, "claim", node=node, max=max, **more)["claimed"]
    return jobs


def counts(api: ApiClient, queue: str) -> tuple[int, int, int]:
    shown = api.get(f"/v0/topics/{queue}").json["queue"]
    return shown["ready"], shown["in_flight"], shown["dead_lettered"]


def test_a_job_is_claimed_once_and_acked(api: ApiClient, queue: str) -> None:
    records = [{"data": {"n": 1.50}, "tag": "mail", "meta": {"a": 1}, "node": "shop"}, {"data": 2}]
    api.post(f"/v0/topics/{queue}", {"records": records})
    answer = call(api, queue, "claim", node="w", max=5)
    first, second = answer.pop("claimed")
    assert answer == {"topic": queue, "count": 2, "ready": 0}
    assert set(first) == {"$seq", "lease_id", "deadline", "$ts", "$tag", "deliveries", "meta", "data"}
    assert (first["$seq"], first["$tag"], first["deliveries"], first["meta"]) == (1, "mail", 1, {"a": 1})
    assert set(second) == {"$seq", "lease_id", "deadline", "$ts", "deliveries", "data"}
    assert first["deadline"] - first["$ts"] >= 60_000
    assert first["lease_id"] != second["lease_id"]
    assert call(api, queue, "claim", node="other")["claimed"] == []
    assert counts(api, queue) == (0, 2, 0)
    done = call(api, queue, "ack", node="w", seqs=[1, 9], lease_ids=[first["lease_id"], second["lease_id"]])
    assert done == {"topic": queue, "acked": 1, "skipped": [9], "ready": 0, "in_flight": 1}
    assert call(api, queue, "ack", node="w", seqs=[1])["skipped"] == [1]
    held = api.get(f"/v0/topics/{queue}").json
    assert (held["count"], held["earliest_seq"], held["type"]) == (1, 2, "queue")
    shown = api.diff(queue).json
    assert [each["data"] for each in shown["records"]] == [2]
    assert shown["tombstone"] is None


@pytest.mark.guarantee("Q2")
def test_a_worker_that_wakes_up_late_cannot_ack_the_job_of_another(api: ApiClient, queue: str) -> None:
    api.append(queue, 1)
    (late,) = claim(api, queue, "w", lease_ms=100)
    again: list[Any] = []
    until(lambda: again.extend(claim(api, queue, "w")) or again, "the lease to end")
    assert again[0]["deliveries"] == 2
    for what, more in (("ack", {}), ("nack", {}), ("extend", {"lease_ms": 1000})):
        stale = call(api, queue, what, node="w", seqs=[1], lease_ids=[late["lease_id"]], **more)
        assert stale["skipped"] == [1]
        assert call(api, queue, what, node="w", seqs=[1], lease_ids=["nonsense"], **more)["skipped"] == [1]
        assert call(api, queue, what, node="x", seqs=[1], **more)["skipped"] == [1]
    assert call(api, queue, "ack", node="w", seqs=[1], lease_ids=[again[0]["lease_id"]])["acked"] == 1


@pytest.mark.parametrize("durable", [True, False])
def test_the_number_of_deliveries_stops_at_its_end(api: ApiClient, server: Instance, queue: str, durable: bool) -> None:
    """One more would be no integer of PostgreSQL, and each claim of the queue would fail."""
    most = 2**31 - 1
    api.put(f"/v0/topics/{queue}", {"leases_durable": durable})
    api.append(queue, 1, 2)
    claim(api, queue, max=1)
    with server.connect() as database:
        database.execute(
            f"UPDATE queues_lease SET deliveries = %s WHERE {OF_QUEUE}",
            (most - 1, queue),
        )
    for _ in range(2):
        call(api, queue, "nack", node="w", seqs=[1])
        assert [job["deliveries"] for job in claim(api, queue, max=1)] == [most]
    call(api, queue, "nack", node="w", seqs=[1])
    assert [(job["$seq"], job["deliveries"]) for job in claim(api, queue)] == [(1, most), (2, 1)]
    api.put(f"/v0/topics/{queue}", {"max_deliveries": most, "dead_letter": f"{queue}-dead"})
    call(api, queue, "nack", node="w", seqs=[1])
    assert claim(api, queue, max=1) == []
    assert counts(api, queue)[2] == 1


def test_a_delete_that_waits_for_a_claim_does_not_set_the_time_of_the_queue_back(
    api: ApiClient, server: Instance, queue: str
) -> None:
    api.append(queue, 1, 2)
    claim(api, queue, max=1)
    with server.connect() as holder, server.connect() as other, ThreadPoolExecutor(1) as thread:
        # The last call was a minute ago.
        other.execute(f"UPDATE queues_queue SET swept_ts = swept_ts - 60000 WHERE {OF_QUEUE}", (queue,))
        with holder.transaction():  # as a claim does
            holder.execute(f"UPDATE queues_queue SET swept_ts = queue_now() WHERE {OF_QUEUE}", (queue,))
            deleted = thread.submit(api.post, f"/v0/topics/{queue}/delete", {"seqs": [2]})
            until(lambda: other.execute(FORGET_WAITS).rowcount, "the delete to wait for the queue")
            swept = f"SELECT swept_ts FROM queues_queue WHERE {OF_QUEUE}"
            written = holder.execute(swept, (queue,)).fetchall()
        assert deleted.result(DEADLINE).json["deleted"] == 1
        assert other.execute(swept, (queue,)).fetchall() == written


def test_a_job_that_is_given_back_comes_before_new_ones(api: ApiClient, queue: str) -> None:
    api.append(queue, 1, 2, 3)
    assert [job["$seq"] for job in claim(api, queue, max=2)] == [1, 2]
    done = call(api, queue, "nack", node="w", seqs=[2])
    assert done == {"topic": queue, "nacked": 1, "skipped": [], "ready": 2, "in_flight": 1}
    assert [(job["$seq"], job["deliveries"]) for job in claim(api, queue, "x", max=1)] == [(2, 2)]
    delayed = call(api, queue, "nack", node="w", seqs=[1], delay_ms=60_000)
    assert (delayed["ready"], delayed["in_flight"]) == (1, 1)
    assert [job["$seq"] for job in claim(api, queue, "x")] == [3]
    assert counts(api, queue) == (0, 2, 0)


def test_a_lease_is_extended(api: ApiClient, queue: str) -> None:
    api.append(queue, 1, 2)
    jobs = claim(api, queue, lease_ms=1_000)
    done = call(api, queue, "extend", node="w", seqs=[1, 2, 3], lease_ms=90_000)
    assert (done["extended"], done["skipped"], set(done["deadlines"])) == (2, [3], {"1", "2"})
    assert all(done["deadlines"][str(job["$seq"])] > job["deadline"] for job in jobs)


def test_an_ended_lease_is_not_extended_and_can_still_be_acked(api: ApiClient, queue: str) -> None:
    api.append(queue, 1)
    claim(api, queue, lease_ms=100)
    until(lambda: counts(api, queue) == (1, 0, 0), "the lease to end")
    assert call(api, queue, "extend", node="w", seqs=[1], lease_ms=1_000)["skipped"] == [1]
    assert call(api, queue, "ack", node="w", seqs=[1])["acked"] == 1
    assert counts(api, queue) == (0, 0, 0)


@pytest.mark.guarantee("Q3")
def test_a_job_that_was_delivered_too_often_moves_to_the_dead_letter_topic(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/topics/{queue}", {"max_deliveries": 2, "dead_letter": f"{queue}-dead"})
    api.post(f"/v0/topics/{queue}", {"records": [{"data": {"a": 1}, "tag": "t", "node": "n", "meta": {"b": 2}}]})
    for deliveries in (1, 2):
        assert [job["deliveries"] for job in claim(api, queue)] == [deliveries]
        call(api, queue, "nack", node="w", seqs=[1])
    api.append(queue, "next")
    assert [job["$seq"] for job in claim(api, queue)] == [2]
    assert counts(api, queue) == (0, 1, 1)
    (letter,) = api.diff(f"{queue}-dead", include_tags=True).json["records"]
    assert (letter["data"], letter["$tag"], letter["$node"]) == ({"a": 1}, "t", "n")
    assert letter["meta"] == {
        "b": 2,
        "$dead_letter_from": queue,
        "$dead_letter_deliveries": 2,
        "$dead_letter_src_seq": 1,
    }
    assert api.get(f"/v0/topics/{queue}").json["count"] == 1


def test_a_dead_letter_has_the_last_error(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/topics/{queue}", {"max_deliveries": 3, "dead_letter": f"{queue}-dead"})
    api.post(f"/v0/topics/{queue}", {"records": [{"data": 1}, {"data": 2}]})
    for error in ("first", 'a "last" one\n\u00e9' + "x" * 2000, None):
        claim(api, queue)
        call(api, queue, "nack", node="w", seqs=[1], error=error)
        call(api, queue, "nack", node="w", seqs=[2], error="")
    assert claim(api, queue) == []
    errors = [each["meta"].get("$dead_letter_error") for each in api.diff(f"{queue}-dead").json["records"]]
    assert errors == ['a "last" one\n\u00e9' + "x" * 2000, None]


def test_the_figures_of_a_queue(api: ApiClient, queue: str) -> None:
    def figures() -> tuple[int, bool]:
        shown = api.get(f"/v0/topics/{queue}").json["queue"]
        return shown["delayed"], shown["oldest_ready_ms"] is not None

    assert figures() == (0, False)
    api.append(queue, 1)
    assert figures() == (0, True)
    until(lambda: api.get(f"/v0/topics/{queue}").json["queue"]["oldest_ready_ms"] > 20, "the job to grow old")
    claim(api, queue)
    assert figures() == (0, False)
    call(api, queue, "nack", node="w", seqs=[1], delay_ms=60_000)
    assert figures() == (1, False)


def test_a_job_stays_while_its_dead_letter_topic_takes_no_records(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/topics/{queue}-dead", {"sealed": True})
    api.put(f"/v0/topics/{queue}", {"max_deliveries": 1, "dead_letter": f"{queue}-dead"})
    api.append(queue, 1)
    claim(api, queue)
    call(api, queue, "nack", node="w", seqs=[1])
    assert claim(api, queue) == []
    assert api.get(f"/v0/topics/{queue}").json["count"] == 1
    assert counts(api, queue)[2] == 0


def test_claims_of_a_window_share_the_jobs_evenly(instances: Any) -> None:
    api, queue = HttpClient(instances().port), "q"
    api.put(f"/v0/topics/{queue}", {"type": "queue", "claim_jitter_ms": 2_000})
    api.append(queue, *range(6))
    found: dict[str, list[Any]] = {}

    def work(node: str) -> None:
        found[node] = claim(api, queue, node, max=6)

    threads = [threading.Thread(target=work, args=(node,)) for node in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job["$seq"] for jobs in found.values() for job in jobs) == [1, 2, 3, 4, 5, 6]
    assert [len(jobs) for jobs in found.values()] == [2, 2, 2]


def test_claims_of_a_window_each_have_at_most_a_mebibyte(instances: Any) -> None:
    api, queue = HttpClient(instances().port), "q"
    api.put(f"/v0/topics/{queue}", {"type": "queue", "claim_jitter_ms": 2_000})
    api.append(queue, *("x" * 400_000 for _ in range(6)))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda node=node: found.append(call(api, queue, "claim", node=node, max=5)))
        for node in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job["$seq"] for answer in found for job in answer["claimed"]) == [1, 2, 3, 4]
    assert [(answer["count"], answer["ready"], answer["clamped"]) for answer in found] == [(2, 2, {"max": 2})] * 2


@pytest.mark.guarantee("Q1")
def test_many_workers_share_the_jobs(api: ApiClient, queue: str) -> None:
    for _ in range(4):
        api.append(queue, *range(100))
    done: list[int] = []

    def work(node: str) -> None:
        while jobs := claim(api, queue, node, max=7):
            seqs = [job["$seq"] for job in jobs]
            answer = call(api, queue, "ack", node=node, seqs=seqs, lease_ids=[job["lease_id"] for job in jobs])
            assert (answer["acked"], answer["skipped"]) == (len(seqs), [])
            done.extend(seqs)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(1, 401))
    assert counts(api, queue) == (0, 0, 0)
    assert api.get(f"/v0/topics/{queue}").json["count"] == 0


def test_a_forwarded_job_is_done_here_and_stays_at_home(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/routers/{queue}-r", {"source": f"{queue}-home", "dest": queue})
    api.append(f"{queue}-home", "a", "b")
    jobs = claim(api, queue)
    assert [job["data"] for job in jobs] == ["a", "b"]
    assert call(api, queue, "ack", node="w", seqs=[jobs[0]["$seq"]])["acked"] == 1
    assert [each["data"] for each in api.diff(queue).json["records"]] == ["b"]
    assert [each["data"] for each in api.diff(f"{queue}-home").json["records"]] == ["a", "b"]


def test_jobs_that_the_topic_loses_are_in_flight_no_longer(api: ApiClient, queue: str) -> None:
    api.append(queue, *range(6))
    claim(api, queue, max=4)
    api.post(f"/v0/topics/{queue}/delete", {"seqs": [2, 5]})
    assert counts(api, queue) == (1, 3, 0)
    api.put(f"/v0/topics/{queue}", {"cap_records": 2})
    assert counts(api, queue) == (1, 1, 0)
    assert call(api, queue, "ack", node="w", seqs=[1, 4]) == {
        "topic": queue, "acked": 1, "skipped": [1], "ready": 1, "in_flight": 0,
    }  # fmt: skip


def test_a_queue_of_the_same_name_knows_no_lease_of_the_old_one(api: ApiClient, queue: str) -> None:
    api.append(queue, 1, 2)
    claim(api, queue)
    api.delete(f"/v0/topics/{queue}")
    api.put(f"/v0/topics/{queue}", {"type": "queue"})
    assert counts(api, queue) == (0, 0, 0)
    api.append(queue, 3)
    assert [job["data"] for job in claim(api, queue)] == [3]


def test_a_sealed_queue_hands_out_no_jobs(api: ApiClient, queue: str) -> None:
    api.append(queue, 1)
    api.put(f"/v0/topics/{queue}", {"sealed": True})
    for what, more in BODIES.items():
        refused = api.post(f"/v0/topics/{queue}/{what}", {"node": "w", **more})
        assert (refused.status, refused.code, refused.headers["topics-sealed"]) == (409, "topic_sealed", "1")


BODIES: dict[str, dict[str, Any]] = {
    "claim": {},
    "ack": {"seqs": [1]},
    "nack": {"seqs": [1]},
    "extend": {"seqs": [1], "lease_ms": 1000},
}
LEASES = ({"lease_ms": 99}, {"lease_ms": 86_400_001}, {"lease_ms": "1"})
WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    "claim": (*LEASES, {"max": 0}, {"max": None}, {"wait_ms": -1}),
    "ack": ({"seqs": None}, {"seqs": [-1]}, {"lease_ids": []}, {"lease_ids": ["a", "b"]}),
    "nack": ({"delay_ms": -1}, {"delay_ms": 86_400_001}, {"lease_ids": []}, {"error": "é" * 1025}, {"error": "\0"}),
    "extend": (*LEASES, {"lease_ms": None}),
}


@pytest.mark.parametrize("what", BODIES)
def test_what_makes_no_sense_is_refused(api: ApiClient, queue: str, what: str) -> None:
    path = f"/v0/topics/{queue}/{what}"
    names = ({"node": ""}, {"node": None}, {"node": "x" * 129}, {"node": "a\0"}, {"nonsense": 1})
    for wrong in (*names, *WRONG[what]):
        refused = api.post(path, {"node": "w", **BODIES[what], **wrong})
        assert (refused.status, refused.code) == (400, "invalid_request"), wrong
    assert api.post(path, {}).code == "invalid_request"


@pytest.mark.parametrize("what", BODIES)
def test_a_log_has_no_jobs(api: ApiClient, queue: str, what: str) -> None:
    body = {"node": "w", **BODIES[what]}
    api.append(f"{queue}-log", 1)
    refused = api.post(f"/v0/topics/{queue}-log/{what}", body)
    assert (refused.status, refused.code, refused.detail) == (409, "not_a_queue", {"topic": f"{queue}-log"})
    absent = api.post(f"/v0/topics/{queue}-absent/{what}", body)
    assert (absent.status, absent.code) == (404, "topic_not_found")
    assert "queue" not in api.get(f"/v0/topics/{queue}-log").json


@pytest.mark.parametrize("what", BODIES)
def test_a_log_is_told_before_wrong_fields(api: ApiClient, queue: str, what: str) -> None:
    api.append(f"{queue}-log", 1)
    for body in ({"node": "w", **BODIES[what], "nonsense": 1}, {"node": 7}):
        assert api.post(f"/v0/topics/{queue}-log/{what}", body).code == "not_a_queue"
        assert api.post(f"/v0/topics/{queue}-absent/{what}", body).code == "invalid_request"


def test_a_lease_of_an_older_server_can_be_acked(api: ApiClient, queue: str) -> None:
    api.append(queue, 1, 2)
    first, second = [job["lease_id"] for job in claim(api, queue)]
    assert first.startswith("lease_")
    assert call(api, queue, "ack", node="w", seqs=[1], lease_ids=[first.removeprefix("lease_")])["acked"] == 1
    assert call(api, queue, "ack", node="w", seqs=[2], lease_ids=[second])["acked"] == 1


def test_a_claim_waits_for_a_job(api: ApiClient, queue: str) -> None:
    """A new job, a job whose lease ended, and a job that was given back end the wait. A deadline does, too."""
    (waiting,) = waiters(api, queue, "w")
    api.append(queue, "a")
    assert waiting() == [("a", 1)]
    (waiting,) = waiters(api, queue, "v")
    call(api, queue, "nack", node="w", seqs=[1])
    assert waiting() == [("a", 2)]
    call(api, queue, "extend", node="v", seqs=[1], lease_ms=100)
    (waiting,) = waiters(api, queue, "w")
    assert waiting() == [("a", 3)]
    assert call(api, queue, "claim", node="x", wait_ms=1)["claimed"] == []


def test_claims_that_wait_share_the_jobs(api: ApiClient, queue: str) -> None:
    several = waiters(api, queue, *(f"w{n}" for n in range(6)))
    api.append(queue, *range(6))
    assert sorted(job for wait in several for job in wait()) == [(n, 1) for n in range(6)]


def test_a_claim_that_waits_is_told_what_happens_to_its_queue(api: ApiClient, queue: str) -> None:
    (waiting,) = waiters(api, queue, "w")
    assert api.put(f"/v0/topics/{queue}", {"sealed": True}).status == 200
    assert waiting() == ["topic_sealed"]
    api.put(f"/v0/topics/{queue}", {"sealed": False})
    (waiting,) = waiters(api, queue, "w")
    assert api.delete(f"/v0/topics/{queue}").status == 200
    assert waiting() == ["topic_not_found"]


def test_a_client_that_is_gone_gets_no_job(api: ApiClient, queue: str, server: Instance) -> None:
    body = b'{"node": "w", "wait_ms": 30000}'
    head = f"POST /v0/topics/{queue}/claim HTTP/1.1\r\nhost: t\r\ncontent-length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        gone.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        call(api, queue, "claim", node="x", wait_ms=300)
    api.append(queue, 1)
    assert [job["deliveries"] for job in claim(api, queue, "x", wait_ms=30_000)] == [1]
    assert counts(api, queue) == (0, 1, 0)


def waiters(api: ApiClient, queue: str, *nodes: str) -> list[Callable[[], list[Any]]]:
    """Starts a claim for each node, which waits. A result has the data and the deliveries of its jobs, or the refusal."""

    def start(node: str) -> Callable[[], list[Any]]:
        got: list[Any] = []

        def wait() -> None:
            reply = api.post(f"/v0/topics/{queue}/claim", {"node": node, "wait_ms": 30_000})
            found = [(job["data"], job["deliveries"]) for job in reply.json["claimed"]] if reply.status == 200 else []
            got.extend(found or [reply.code])

        thread = threading.Thread(target=wait)
        thread.start()

        def result() -> list[Any]:
            thread.join(DEADLINE)
            return got

        return result

    return [start(node) for node in nodes]


@pytest.mark.parametrize("what", ["ack", "nack", "extend"])
def test_a_call_names_at_most_a_thousand_jobs(api: ApiClient, queue: str, what: str) -> None:
    body = {"node": "w", **BODIES[what]}
    assert call(api, queue, what, **{**body, "seqs": list(range(1, 1001))})["skipped"][-1] == 1000
    refused = api.post(f"/v0/topics/{queue}/{what}", {**body, "seqs": list(range(1, 1002))})
    assert (refused.status, refused.code, refused.detail) == (400, "batch_too_large", {"max": 1000})


def test_a_claim_gets_at_most_a_thousand_jobs(api: ApiClient, queue: str) -> None:
    api.append(queue, *range(1_001))
    answer = call(api, queue, "claim", node="w", max=5_000)
    assert (answer["count"], answer["ready"], answer["clamped"]) == (1000, 1, {"max": 1000})


def test_an_answer_of_a_claim_has_at_most_a_mebibyte(api: ApiClient, queue: str) -> None:
    api.append(queue, *("x" * size for size in (400_000, 400_000, 400_000, 1_048_574, 1)))
    for seqs, ready in (([1, 2], 3), ([3], 2), ([4], 1)):
        answer = call(api, queue, "claim", node="w", max=10)
        assert [job["$seq"] for job in answer["claimed"]] == seqs
        assert (answer["count"], answer["ready"], answer["clamped"]) == (len(seqs), ready, {"max": len(seqs)})
    last = call(api, queue, "claim", node="w", max=10)
    assert ([job["$seq"] for job in last["claimed"]], "clamped" in last) == ([5], False)
    call(api, queue, "nack", node="w", seqs=[1, 3, 4, 5])
    assert [[job["$seq"] for job in claim(api, queue)] for _ in range(3)] == [[1, 3], [4], [5]]


def test_the_config_of_a_queue_is_checked_and_changes(api: ApiClient, queue: str) -> None:
    path = f"/v0/topics/{queue}"
    for wrong in (
        {"lease_ms": 99},
        {"claim_jitter_ms": 60_001},
        {"dead_letter": queue},
        {"dead_letter": "no name"},
        {"max_deliveries": -1},
    ):
        assert api.put(path, wrong).code == "invalid_request", wrong
    changed = {"lease_ms": 500, "max_deliveries": 3, "dead_letter": "d", "claim_jitter_ms": 1, "leases_durable": True}
    shown = api.put(path, changed).json["config"]
    assert changed.items() <= shown.items()
    assert api.put(path, shown).json["config"] == shown
    refused = api.put(f"{path}-2", {"lease_ms": 500})
    assert (refused.status, refused.code, refused.detail) == (400, "invalid_request", {"field": "lease_ms"})
    assert api.put(path, {"type": "log"}).code == "topic_exists_incompatible"


def test_an_append_can_create_a_queue(api: ApiClient, queue: str) -> None:
    assert api.append(f"{queue}-2", 1, config={"type": "queue", "lease_ms": 500}).status == 201
    assert [job["data"] for job in claim(api, f"{queue}-2")] == [1]


def test_a_claim_needs_two_scopes(instances: Any) -> None:
    instance = instances(TOPICS_API_KEYS="all:read+write+admin,reader:read,writer:write,other:read+write:elsewhere")
    api = HttpClient(instance.port)
    everything = {"authorization": "Bearer all"}
    api.put("/v0/topics/q", {"type": "queue"}, **everything)
    for key in ("reader", "writer", "other"):
        refused = api.post("/v0/topics/q/claim", {"node": "w"}, authorization=f"Bearer {key}")
        assert (refused.status, refused.code) == (403, "forbidden"), key
    assert api.post("/v0/topics/q/claim", {"node": "w"}, **everything).status == 200
    for what in ("ack", "nack", "extend"):
        body = {"node": "w", **BODIES[what]}
        assert api.post(f"/v0/topics/q/{what}", body, authorization="Bearer writer").status == 200
        assert api.post(f"/v0/topics/q/{what}", body, authorization="Bearer reader").status == 403
