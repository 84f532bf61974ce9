"""Queues with `unique_tags`: at most one job of a tag waits or runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from store.script import run
from tests.api.clients import ApiClient
from tests.examples import examples
from tests.queues.test_jobs import call, claim, counts
from tests.queues.test_redrive import data, kill, letters
from tests.scripts import put_topic
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget_all
from topics.config import Config
from topics.delete.records import delete_seqs

NOW = 1_800_000_000_000


@pytest.fixture
def queue(api: ApiClient, request: pytest.FixtureRequest) -> str:
    name = f"unique-{abs(hash(request.node.nodeid)):x}"
    assert api.put(f"/v0/topics/{name}", {"type": "queue", "unique_tags": True}).status == 201
    return name


def send(api: ApiClient, queue: str, *tags: str | None, **more: Any) -> Any:
    records = [{"data": place, **({} if tag is None else {"tag": tag})} for place, tag in enumerate(tags)]
    return api.post(f"/v0/topics/{queue}", {"records": records, **more})


def told(reply: Any) -> tuple[list[int], bool, list[int]]:
    assert reply.status in {200, 201}, reply
    return reply.json["seqs"], reply.json["deduped"], reply.json["deduplicated"]


def test_a_tag_has_one_job_until_its_ack(api: ApiClient, queue: str) -> None:
    assert told(send(api, queue, "sync:1", None, "sync:2")) == ([1, 2, 3], False, [])
    assert told(send(api, queue, "sync:3", "sync:1", None)) == ([4, 1, 5], False, [1])
    assert told(send(api, queue, "sync:2")) == ([3], True, [0])
    job = claim(api, queue, max=1)[0]
    assert told(send(api, queue, "sync:1")) == ([1], True, [0])  # a running job counts, too
    call(api, queue, "nack", node="w", seqs=[job["$seq"]])
    assert told(send(api, queue, "sync:1")) == ([1], True, [0])
    claim(api, queue, max=1)
    call(api, queue, "ack", node="w", seqs=[1])
    assert told(send(api, queue, "sync:1", return_seqs=True)) == ([6], False, [])
    api.post(f"/v0/topics/{queue}/delete", {"seqs": [6]})
    assert told(send(api, queue, "sync:1")) == ([7], False, [])


def test_a_repeated_append_gets_the_answer_of_the_first_one(api: ApiClient, queue: str) -> None:
    send(api, queue, "a")
    first = send(api, queue, "b", "a", idempotency_key="k")
    assert told(first) == ([2, 1], False, [1])
    claim(api, queue)
    call(api, queue, "ack", node="w", seqs=[1, 2])
    assert told(send(api, queue, "b", "a", idempotency_key="k")) == ([2, 1], True, [0, 1])
    assert counts(api, queue) == (0, 0, 0)
    assert told(send(api, queue, "a", idempotency_keys=["of-a"])) == ([3], False, [])
    assert send(api, queue, "c", idempotency_keys=["of-a"]).code == "idempotency_mismatch"


def test_an_append_can_have_the_longest_key(api: ApiClient, queue: str) -> None:
    key = "k" * 256
    tags = [f"t{place}" for place in range(12)]
    first = told(send(api, queue, *tags, idempotency_key=key))
    assert first == (list(range(1, 13)), False, [])
    assert told(send(api, queue, *tags, idempotency_key=key))[:2] == (first[0], True)


def test_two_jobs_of_one_tag_in_an_append_are_refused(api: ApiClient, queue: str) -> None:
    reply = send(api, queue, "a", None, "a")
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.json["error"]["message"] == (
        "records[0] and records[2] both have the tag 'a', and the queue has unique_tags: send one job for each tag"
    )
    assert counts(api, queue) == (0, 0, 0)


def test_an_append_that_is_refused_remembers_no_job(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/topics/{queue}", {"cap_records": 2, "discard": "reject"})
    send(api, queue, "a", "b")
    assert send(api, queue, "a", "c", idempotency_keys=["1", "2"]).status == 422
    claim(api, queue)
    call(api, queue, "ack", node="w", seqs=[1])
    assert told(send(api, queue, "a", idempotency_keys=["1"])) == ([3], False, [])


def test_an_append_can_create_the_queue(api: ApiClient, queue: str) -> None:
    config = {"type": "queue", "unique_tags": True}
    assert told(send(api, f"{queue}-new", "a", config=config, create=True)) == ([1], False, [])
    rejecting = {**config, "discard": "reject", "cap_records": 1}
    assert send(api, f"{queue}-other", "a", "a", config=rejecting, create=True).status == 400
    assert api.get(f"/v0/topics/{queue}-other").status == 404


def test_the_setting_cannot_change(api: ApiClient, queue: str) -> None:
    reply = api.put(f"/v0/topics/{queue}", {"unique_tags": False})
    assert (reply.status, reply.code) == (409, "topic_exists_incompatible")
    assert reply.json["error"]["detail"]["unique_tags"] is True
    api.put(f"/v0/topics/{queue}-plain", {"type": "queue"})
    assert api.put(f"/v0/topics/{queue}-plain", {"unique_tags": True}).status == 409
    assert api.put(f"/v0/topics/{queue}-log", {"unique_tags": True}).status == 400


def test_a_router_cannot_lead_into_the_queue(api: ApiClient, queue: str) -> None:
    api.append(f"{queue}-src", 1)
    reply = api.put(f"/v0/routers/{queue}", {"source": f"{queue}-src", "dest": queue})
    assert (reply.status, reply.code) == (409, "topic_exists_incompatible")
    assert reply.json["error"]["message"] == (
        f"queue {queue!r} has unique_tags, and a router cannot leave out jobs: choose another dest"
    )
    assert api.get(f"/v0/routers/{queue}").status == 404
    assert api.put(f"/v0/routers/{queue}", {"source": queue, "dest": f"{queue}-dest"}).status == 201


def test_a_redrive_leaves_the_letters_whose_tag_has_a_job(api: ApiClient, queue: str) -> None:
    name = f"{queue}-r"
    dead = f"{name}-dead"
    config = {"type": "queue", "unique_tags": True, "max_deliveries": 1, "dead_letter": dead}
    api.put(f"/v0/topics/{name}", config)
    for n in (1, 2):
        kill(api, name, {"data": n, "tag": "a"}, {"data": f"b{n}", "tag": "b"})
    send(api, name, "b")
    done = api.post(f"/v0/topics/{dead}/redrive", {}).json
    assert (done["moved"], done["queues"]) == (1, {name: 1})
    ((queue_name, code, seqs),) = [(each["queue"], each["code"], each["seqs"]) for each in done["skipped"]]
    assert (queue_name, code, seqs) == (name, "topic_exists_incompatible", [2, 3, 4])
    assert data(api, dead) == ["b1", 2, "b2"]
    assert [each["data"] for each in letters(api, name)] == [0, 1]


def test_a_queue_with_unique_tags_gets_no_dead_letters(api: ApiClient, queue: str) -> None:
    name = f"{queue}-d"
    api.put(f"/v0/topics/{name}", {"type": "queue", "max_deliveries": 1, "dead_letter": queue})
    kill(api, name, {"data": 1, "tag": "a"}, {"data": 2, "tag": "a"})
    assert data(api, queue) == []
    assert data(api, name) == [1, 2]


@pytest.mark.guarantee("Q5")
def test_of_many_appends_at_once_one_makes_the_job(api: ApiClient, queue: str) -> None:
    tags = [f"t{n}" for n in range(5)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: told(send(api, queue, *tags[n % 5 :], f"own{n}")), range(80)))
    for tag in range(5):
        seqs = {seqs[tag - n % 5] for n, (seqs, _, _) in enumerate(answers) if n % 5 <= tag}
        assert len(seqs) == 1
    assert sum(len(seqs) - len(known) for seqs, _, known in answers) == 85
    assert counts(api, queue) == (85, 0, 0)


TAGS = st.sampled_from(["a", "b", "c", None])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(TAGS, min_size=1, max_size=4).filter(
                lambda tags: len([t for t in tags if t]) == len({*tags} - {None})
            ),
            st.none() | st.integers(0, 3),
        ),
        st.tuples(st.just("delete"), st.integers(1, 12)),
        st.tuples(st.just("pass"), st.sampled_from([50, 200])),
    ),
    max_size=14,
)


@pytest.mark.guarantee("Q5")
@pytest.mark.django_db(transaction=True)
@settings(max_examples=examples(25))
@given(STEPS)
def test_any_order_of_appends_and_deletes(steps: list[Any]) -> None:
    """Beside a model in memory: the live job of each tag, and the seq that each key was answered."""
    forget_all()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE topics_topic, topics_topichead, topics_record, topics_idempotencykey CASCADE")
    now = NOW
    put_topic("q", Config(type="queue", unique_tags=True, ttl_ms=300, idempotency_window_ms=10**9), now)
    live: dict[int, tuple[str | None, int]] = {}
    answers: dict[str, tuple[str | None, int]] = {}
    head = 0
    for what, value, *rest in steps:
        live = {seq: job for seq, job in live.items() if job[1] >= now - 300}
        if what == "pass":
            now += value
        elif what == "delete":
            run(delete_seqs("q", [value], now))
            live.pop(value, None)
        else:
            records = [NewRecord(msgspec.Raw(b"1"), tag=tag) for tag in value]
            key = rest[0]
            keys = None if key is None else [f"{key}:{tag}:{place}" for place, tag in enumerate(value)]
            wanted = Append(records=records, idempotency_keys=keys)
            expected = []
            for place, tag in enumerate(value):
                of_tag = next((seq for seq, job in live.items() if job[0] == tag and tag is not None), None)
                seq = answers[keys[place]][1] if keys and keys[place] in answers else of_tag
                if seq is None:
                    head += 1
                    seq = head
                    live[seq] = (tag, now)
                expected.append(seq)
                if keys:
                    answers.setdefault(keys[place], (tag, seq))
            done = run(append("q", wanted, check_rows(wanted), now))
            assert done.seqs == expected
