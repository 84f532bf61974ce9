"""POST /v0/topics/:topic/redrive: dead letters are jobs of their queues again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.instances import Instance, until
from tests.queues.test_jobs import call, claim, counts

pytestmark = pytest.mark.deep


WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%topic_delete_seqs%'"
HOLD = "SELECT FROM topics_record r JOIN topics_topic t ON t.id = topic_id WHERE name = 'q-dead' FOR UPDATE OF r"


@pytest.fixture
def queue(api: ApiClient, request: pytest.FixtureRequest) -> str:
    """A queue whose jobs are dead letters after one delivery. Its dead letter topic has the suffix -dead."""
    name = f"redrive-{abs(hash(request.node.nodeid)):x}"
    return make(api, name, f"{name}-dead")


def make(api: ApiClient, name: str, dead: str, **config: Any) -> str:
    config = {"type": "queue", "max_deliveries": 1, "dead_letter": dead, **config}
    assert api.put(f"/v0/topics/{name}", config).status == 201
    return name


def kill(api: ApiClient, queue: str, *records: dict[str, Any]) -> None:
    """Appends jobs and makes dead letters of them."""
    api.post(f"/v0/topics/{queue}", {"records": list(records)})
    while jobs := claim(api, queue, "w", max=1000):
        call(api, queue, "nack", node="w", seqs=[job["$seq"] for job in jobs])


def hand_over(api: ApiClient, topic: str, *records: dict[str, Any], **headers: str) -> Reply:
    """Appends records of another server, which may have the stamps of dead letters."""
    found = [{"$seq": n, "$ts": 1, **each} for n, each in enumerate(records, 1)]
    body = {"here": "here", "source": "there", "from_seq": 0, "next_from_seq": len(found), "records": found}
    return api.post(f"/v0/topics/{topic}/mirror", body, **headers)


def letters(api: ApiClient, topic: str) -> list[Any]:
    found: list[Any] = api.diff(topic, include_tags=True, limit=1000).json["records"]
    return found


def data(api: ApiClient, topic: str) -> list[Any]:
    return [each["data"] for each in letters(api, topic)]


def redrive(api: ApiClient, of: str, **body: Any) -> Any:
    reply = api.post(f"/v0/topics/{of}-dead/redrive", body)
    assert reply.status == 200, reply
    return {name: value for name, value in reply.json.items() if name != "performance"}


def test_a_dead_letter_is_a_new_job(api: ApiClient, queue: str) -> None:
    kill(api, queue, {"data": {"n": 1.50}, "tag": "mail", "node": "shop", "meta": {"a": 1}}, {"data": 2})
    assert redrive(api, queue) == {
        "topic": f"{queue}-dead", "moved": 2, "queues": {queue: 2}, "skipped": [], "next_from_seq": 2,
        "caught_up": True, "dry_run": False,
    }  # fmt: skip
    assert letters(api, f"{queue}-dead") == []
    first, second = letters(api, queue)
    assert (first["data"], first["$tag"], first["$node"], first["meta"]) == ({"n": 1.50}, "mail", "shop", {"a": 1})
    assert "meta" not in second
    assert counts(api, queue) == (2, 0, 2)
    assert [(job["$seq"], job["deliveries"]) for job in claim(api, queue)] == [(3, 1), (4, 1)]
    assert redrive(api, queue)["moved"] == 0


def test_a_redriven_job_can_die_again(api: ApiClient, queue: str) -> None:
    kill(api, queue, {"data": 1})
    redrive(api, queue)
    kill(api, queue, {"data": 2})
    assert [(each["data"], each["meta"]["$dead_letter_src_seq"]) for each in letters(api, f"{queue}-dead")] == [
        (1, 2),
        (2, 3),
    ]


@pytest.mark.parametrize(
    ("chosen", "moved"),
    [
        ({"match": "a"}, [0, 3]),
        ({"match": ["tag", "Glob", "b*"]}, [1, 2]),
        ({"seqs": [4, 2, 2]}, [1, 3]),
        ({"seqs": [4, 2], "from_seq": 2}, [3]),
        ({"appended_by": "n1"}, [0, 1]),
        ({"appended_by": "n1", "match": "a"}, [0]),
        ({"limit": 2}, [0, 1]),
        ({"from_seq": 2, "limit": 1}, [2]),
    ],
)
def test_a_choice_moves_only_its_letters(api: ApiClient, queue: str, chosen: Any, moved: list[int]) -> None:
    tags, nodes = ("a", "b1", "b2", "a"), ("n1", "n1", "n2", "n2")
    kill(api, queue, *({"data": n, "tag": tags[n], "node": nodes[n]} for n in range(4)))
    dry = redrive(api, queue, **chosen, dry_run=True)
    assert data(api, queue) == []
    assert dry | {"dry_run": False} == redrive(api, queue, **chosen)
    assert dry["moved"] == len(moved)
    assert data(api, queue) == moved
    assert data(api, f"{queue}-dead") == [n for n in range(4) if n not in moved]


def test_calls_one_after_another_pass_letters_of_other_queues(api: ApiClient, queue: str) -> None:
    other = make(api, f"{queue}-2", f"{queue}-dead")
    for n in range(4):
        kill(api, other if n % 2 else queue, {"data": n})
    assert redrive(api, queue, queue=other, limit=1)["moved"] == 0
    seq, moved = 0, 0
    while True:
        done = redrive(api, queue, queue=other, limit=1, from_seq=seq)
        seq, moved = done["next_from_seq"], moved + done["moved"]
        if done["caught_up"]:
            break
    assert (moved, data(api, other), data(api, f"{queue}-dead")) == (2, [1, 3], [0, 2])
    assert redrive(api, queue)["queues"] == {queue: 2}


def test_a_call_moves_about_a_megabyte(api: ApiClient, queue: str) -> None:
    kill(api, queue, *({"data": "x" * 400_000} for _ in range(9)))
    for chosen in ({}, {"seqs": [9, 8, 7, 6, 5, 4]}):
        done = redrive(api, queue, **chosen)
        assert 0 < done["moved"] < 5
        assert not done["caught_up"]
    done = redrive(api, queue, seqs=[8, 9], from_seq=done["next_from_seq"])
    assert (done["caught_up"], done["next_from_seq"]) == (True, 9)
    assert api.get(f"/v0/topics/{queue}").json["count"] + api.get(f"/v0/topics/{queue}-dead").json["count"] == 9


def skipped(answer: Any) -> dict[str, tuple[Any, list[int]]]:
    assert answer["moved"] == 0
    assert all(each["message"] for each in answer["skipped"])
    return {each["code"]: (each["queue"], each["seqs"]) for each in answer["skipped"]}


def test_letters_that_cannot_go_back_stay_and_say_why(api: ApiClient, queue: str) -> None:
    gone, log, sealed, full = (make(api, f"{queue}-{n}", f"{queue}-dead") for n in ("gone", "log", "sealed", "full"))
    for each in (gone, log, sealed, full):
        kill(api, each, {"data": each})
    for each in (gone, log):
        api.delete(f"/v0/topics/{each}")
    api.put(f"/v0/topics/{log}", {})
    api.put(f"/v0/topics/{sealed}", {"sealed": True})
    api.put(f"/v0/topics/{full}", {"cap_records": 1, "discard": "reject"})
    api.append(full, "x")
    odd = ("a", 5, "no name", f"{queue}-dead")
    forged = [{"data": 1}, *({"data": n, "meta": {"$dead_letter_from": n}} for n in odd[1:])]
    assert hand_over(api, f"{queue}-dead", *forged).status == 200
    found = redrive(api, queue)
    refused = skipped(found)
    assert refused == {
        "topic_not_found": (gone, [1]),
        "not_a_queue": (log, [2]),
        "topic_sealed": (sealed, [3]),
        "topic_full": (full, [4]),
        "invalid_request": (f"{queue}-dead", [8]),
    }
    assert [each["seqs"] for each in found["skipped"] if each["queue"] is None] == [[5, 6, 7]]
    assert len(letters(api, f"{queue}-dead")) == 8
    del refused["topic_full"]  # only the append itself finds that a queue is full
    assert skipped(redrive(api, queue, dry_run=True, limit=3)).items() <= refused.items()
    assert skipped(redrive(api, queue, seqs=[1, 99])) == {"topic_not_found": (gone, [1]), "not_found": (None, [99])}
    api.put(f"/v0/topics/{full}", {"discard": "old"})
    assert redrive(api, queue)["queues"] == {full: 1}
    assert data(api, full) == [full]


def test_a_sealed_topic_keeps_its_letters(api: ApiClient, queue: str) -> None:
    kill(api, queue, {"data": 1})
    api.put(f"/v0/topics/{queue}-dead", {"sealed": True})
    refused = api.post(f"/v0/topics/{queue}-dead/redrive", {})
    assert (refused.status, refused.code, refused.headers["topics-sealed"]) == (409, "topic_sealed", "1")


def test_a_dead_letter_topic_can_be_a_queue_or_a_dest(api: ApiClient, queue: str) -> None:
    api.put(f"/v0/topics/{queue}-dead", {"type": "queue"})
    kill(api, queue, {"data": 1}, {"data": 2}, {"data": 3})
    claim(api, f"{queue}-dead", max=2)
    call(api, f"{queue}-dead", "ack", node="w", seqs=[1])
    assert redrive(api, queue)["moved"] == 2
    assert counts(api, f"{queue}-dead")[:2] == (0, 0)
    kill(api, queue)
    api.put(f"/v0/routers/{queue}-r", {"source": f"{queue}-dead", "dest": f"{queue}-all", "from": "earliest"})
    done = call(api, f"{queue}-all", "redrive", seqs=[1])
    assert (done["moved"], data(api, queue)) == (1, [2])
    assert len(letters(api, f"{queue}-dead")) == 2  # the home keeps what it forwarded


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0}, {"from_seq": -1}, {"seqs": [1], "match": "a"}, {"queue": "no name"}, {"appended_by": "a\0"},
        {"match": ["tag", "Glob", "*a"]}, {"seqs": ["1"]}, {"nonsense": 1},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(api: ApiClient, queue: str, wrong: Any) -> None:
    kill(api, queue, {"data": 1})
    refused = api.post(f"/v0/topics/{queue}-dead/redrive", wrong)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert data(api, queue) == []


def test_a_call_has_bounds(api: ApiClient, queue: str) -> None:
    kill(api, queue, {"data": 1})
    assert redrive(api, queue, limit=5_000)["clamped"] == {"limit": 1000}
    refused = api.post(f"/v0/topics/{queue}-dead/redrive", {"seqs": list(range(1, 1002))})
    assert (refused.status, refused.code, refused.detail) == (400, "batch_too_large", {"max": 1000})
    assert api.post(f"/v0/topics/{queue}-absent/redrive", {}).code == "topic_not_found"


@pytest.mark.guarantee("Q3")
def test_a_letter_moves_once_if_the_connection_ends_in_between(instances: Any) -> None:
    instance: Instance = instances()
    api = HttpClient(instance.port)
    queue = make(api, "q", "q-dead")
    kill(api, queue, {"data": 1}, {"data": 2})
    with instance.connect() as holder, instance.connect() as other, ThreadPoolExecutor(1) as thread:
        with holder.transaction():  # the append is done, and the delete waits for this row
            holder.execute(HOLD)
            answer = thread.submit(api.post, "/v0/topics/q-dead/redrive", {})
            ((pid,),) = until(lambda: other.execute(WAITING).fetchall(), "the delete of the letters to wait")
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            assert answer.result().status == 503
        assert (data(api, queue), data(api, "q-dead")) == ([], [1, 2])
    assert redrive(api, queue)["moved"] == 2
    assert (data(api, queue), data(api, "q-dead")) == ([1, 2], [])


@pytest.mark.guarantee("Q3")
def test_calls_at_once_move_each_letter_once(api: ApiClient, queue: str) -> None:
    kill(api, queue, *({"data": n, "tag": f"t{n % 7}"} for n in range(300)))
    moved: list[int] = []
    deleted: list[int] = []

    def work(n: int) -> None:
        for _ in range(4):
            moved.append(redrive(api, queue, limit=40 + n)["moved"])
        deleted.append(api.post(f"/v0/topics/{queue}-dead/delete", {"match": f"t{n}"}).json["deleted"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while redrive(api, queue)["moved"]:
        pass
    jobs = [job["data"] for _ in range(2) for job in claim(api, queue, max=1000)]
    assert len(jobs) == len(set(jobs)) == 300 - sum(deleted)
    assert counts(api, queue)[2] == 300


def test_a_redrive_needs_three_scopes_and_moves_within_the_prefixes(instances: Any) -> None:
    rights = {"all": "read+write+delete+commit+admin", "mine": "read+write+delete:q-dead"}
    api = HttpClient(instances(TOPICS_API_KEYS=",".join(f"{key}:{value}" for key, value in rights.items())).port)
    everything = {"authorization": "Bearer all"}
    api.put("/v0/topics/q", {"type": "queue"}, **everything)
    assert hand_over(api, "q-dead", {"data": 1, "meta": {"$dead_letter_from": "q"}}, **everything).status == 201
    answer = api.post("/v0/topics/q-dead/redrive", {}, authorization="Bearer mine").json
    assert [(each["queue"], each["code"]) for each in answer["skipped"]] == [("*", "forbidden")]
    assert "'q'" not in answer["skipped"][0]["message"]
    assert api.post("/v0/topics/q-dead/redrive", {}, **everything).json["moved"] == 1


def test_a_choice_of_queues_by_the_begin_of_their_names(api: ApiClient, queue: str) -> None:
    for each in (f"{queue}.a", f"{queue}.b", f"{queue}-c"):
        make(api, each, f"{queue}-dead")
        kill(api, each, {"data": each})
    assert redrive(api, queue, queue=f"{queue}.*")["queues"] == {f"{queue}.a": 1, f"{queue}.b": 1}
    assert redrive(api, queue, queue="*")["queues"] == {f"{queue}-c": 1}
    for odd in ("a*b", "**", "*a"):
        assert api.post(f"/v0/topics/{queue}-dead/redrive", {"queue": odd}).status == 400


def test_a_client_cannot_write_the_stamp_of_a_dead_letter(api: ApiClient, queue: str) -> None:
    for key in ("$dead_letter_from", "$dead_letter_deliveries", "$dead_letter_src_seq", "$dead_letter_error"):
        record = {"data": 1, "meta": {key: "q"}}
        schedule = {"not_before": 2**42, **record}
        for refused in (
            api.post(f"/v0/topics/{queue}", {"records": [record]}),
            api.put(f"/v0/topics/{queue}/schedules/s", schedule),
        ):
            assert (refused.status, refused.code) == (400, "invalid_request")
            assert (
                refused.json["error"]["message"]
                == f"meta has the key {key}, which only servers write: leave the key out"
            )
    escaped = b'{"records":[{"data":1,"meta":{"$dead_letter_fr\\u006fm":"q"}}]}'
    assert api.call("POST", f"/v0/topics/{queue}", escaped).status == 400
    assert api.post(f"/v0/topics/{queue}", {"records": [{"data": 1, "meta": {"$mine": 1}}]}).status == 200
